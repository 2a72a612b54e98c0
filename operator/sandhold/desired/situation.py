"""What a session's world comes to, worked out once for every step: whose pods, which epoch, may the gate be open.

Everything here is derived from the world and nothing else. The three questions that the laws hang on are answered
here and nowhere else: may the agent have run in a pod (`gate_may_be_open`), is its final archive stored (`archived`),
and which pods are certainly there or certainly gone (`pods`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sandhold import names
from sandhold.api.pod import EnvVar
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession, SandboxSessionStatus
from sandhold.backends.admit import Admission, admit
from sandhold.desired import conditions, ownership, runtime, snapshot, volumes
from sandhold.desired.seen import SeenPod, see_pod
from sandhold.desired.snapshot import Entry
from sandhold.desired.world import (
    Absent,
    Installation,
    Keeper,
    KeeperReport,
    KubeObject,
    Manifest,
    Observed,
    Present,
    SessionWorld,
    SlotHistory,
    Unknown,
)
from sandhold.reasons import SNAPSHOTTED, Refusal, RefusalCode, refuse
from sandhold.slots.key import slot_key

OVERDUE_SECONDS = 30
"""A pod whose grace ended so long ago is stuck: its node is gone or cut off. Its epoch fences it; nobody waits."""
LONGEST_RETRY = 1024
"""What status has room for."""
SETTLE_SECONDS = 5
"""An order to open that was under way when a stop began has reached its keeper after so long, or never will."""
_NO_REPORT = KeeperReport()


@dataclass(frozen=True, slots=True)
class Situation:
    """A session's world, read."""

    world: SessionWorld
    slot: str
    epoch: int
    """The epoch that status names; 0 before the first start."""
    admission: Admission | Refusal | Unknown
    sandbox: AgentSandbox | None
    keeps_archives: bool | None
    """Whether a stop must archive; None while that is not known, which counts as yes."""
    pods: tuple[SeenPod, ...] | None
    """Every pod of ours; None while no read succeeded."""
    pod: SeenPod | None
    """The one of this epoch."""
    indexed: Mapping[int, Entry]
    """Of each epoch of the slot, the newest archive that a SandboxSnapshot calls verified."""

    @property
    def session(self) -> SandboxSession:
        """The session that the pass is about."""
        return self.world.session

    @property
    def status(self) -> SandboxSessionStatus:
        """Its status as it was observed."""
        return self.world.session.status

    @property
    def now(self) -> datetime:
        """The time of the pass."""
        return self.world.now

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted the session."""
        return self.session.metadata.deletion_timestamp is not None

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer holds the session."""
        return names.FINALIZER_WORKSPACE in self.session.metadata.finalizers

    @property
    def keeper(self) -> Keeper | None:
        """The keeper of this epoch's pod, if one ever called home."""
        return self.world.keepers.get(self.pod.uid) if self.pod is not None else None

    @property
    def is_connected(self) -> bool:
        """Whether that keeper can be given orders now. One that has not said yet how it is decides nothing."""
        return self.keeper is not None and self.keeper.connected and self.keeper.report is not None

    @property
    def report(self) -> KeeperReport:
        """Its last report; an empty one before the first."""
        return self.keeper.report if self.keeper is not None and self.keeper.report is not None else _NO_REPORT

    @property
    def history(self) -> SlotHistory | None:
        """What the store holds of the slot; None while that is not known or no archives are kept."""
        return self.world.history.value if isinstance(self.world.history, Present) else None

    @property
    def content(self) -> Manifest | None:
        """The archive that a start gets."""
        return self.history.content if self.history is not None else None

    @property
    def store(self) -> str | None:
        """The store of the archives, whatever else may be wrong with it; None while the AgentSandbox is not known."""
        if self.sandbox is None:
            return None
        return self.world.installation.backends.store_for(self.sandbox.spec.snapshot.store)

    @property
    def head_epoch(self) -> int:
        """The highest epoch in the store."""
        return self.history.head.epoch if self.history is not None and self.history.head is not None else 0

    @property
    def next_epoch(self) -> int:
        """A number above every epoch that anybody may have used."""
        return max(self.epoch, self.head_epoch, *(pod.epoch for pod in self.pods or ()), 0) + 1

    @property
    def stopping_since(self) -> datetime | None:
        """When the stop that is under way began: `Snapshotted` becomes False with it, and is never False before."""
        found = conditions.find(self.status.conditions, SNAPSHOTTED)
        is_stopping = self.status.phase == "Stopping" and found is not None and found.status == "False"
        return found.last_transition_time if is_stopping and found is not None else None

    @property
    def discards(self) -> bool:
        """Whether a person asked to let the workspace go."""
        return self.session.metadata.annotations.get(names.ANNOTATION_DISCARD) == "true"

    @property
    def is_fenced(self) -> bool:
        """Whether this epoch's fence is known to be written: it precedes every order to open."""
        return self.epoch > 0 and (self.world.fenced_epoch == self.epoch or self.head_epoch >= self.epoch)

    @property
    def is_underway(self) -> bool:
        """Whether the session is between taking an epoch and coming to rest."""
        is_starting = self.status.phase in ("Starting", "Ready") and self.status.stop_reason is None
        return self.epoch > 0 and (is_starting or self.status.phase == "Stopping")

    @property
    def epoch_archive(self) -> Manifest | None:
        """This epoch's newest archive, a checkpoint or a final one, if it is what a next start would get."""
        content = self.content
        is_of_epoch = content is not None and content.epoch == self.epoch and content.kind == "Archive"
        return content if is_of_epoch else None

    @property
    def final_archive(self) -> Manifest | None:
        """This epoch's final archive, if it is the newest one: what a pod may be deleted for. A checkpoint never is."""
        archive = self.epoch_archive
        return archive if archive is not None and archive.final else None

    def seconds_until(self, moment: datetime) -> float:
        """How long until something is; negative afterwards."""
        return (moment - self.now).total_seconds()

    def seconds_since(self, moment: datetime | None) -> float:
        """How long ago something was; 0 when it was not."""
        return (self.now - moment).total_seconds() if moment is not None else 0.0


def read_situation(world: SessionWorld) -> Situation:
    """Work it all out."""
    session = world.session
    slot = session.status.slot
    epoch = slot.epoch if slot is not None else 0
    pods = _our_pods(world)
    sandbox = world.sandbox.value if isinstance(world.sandbox, Present) else None
    key = slot_of(session, world.installation.id)
    return Situation(
        world=world,
        slot=key,
        epoch=epoch,
        admission=_admission(world),
        sandbox=sandbox,
        keeps_archives=_keeps_archives(session, sandbox),
        pods=pods,
        pod=next((pod for pod in pods or () if pod.epoch == epoch), None),
        indexed=_indexed(world.snapshots, key),
    )


def slot_of(session: SandboxSession, installation_id: str) -> str:
    """The slot of a session, from what it is called and nothing else.

    Never from its status: who may write that would be given the workspace of any slot that it names.
    """
    meta = session.metadata
    return slot_key(
        installation=installation_id,
        namespace=meta.namespace,
        sandbox=session.spec.sandbox_ref.name,
        session=meta.name,
    )


def retry_of(session: SandboxSession) -> str | None:
    """The retry annotation as status notes it: a digest of one that has no room there."""
    retry = session.metadata.annotations.get(names.ANNOTATION_RETRY)
    return retry if retry is None or len(retry) <= LONGEST_RETRY else f"digest:{names.short_hash(retry, length=64)}"


def gate_may_be_open(situation: Situation) -> bool:
    """Whether an agent may have run in this epoch's pod. Certain only in the negative.

    The fence is written before any order to open, so an epoch that is known to be unfenced was never opened. In a
    fenced one the keeper's word counts, once an order under way can no longer arrive (it takes none after `end`).
    """
    status, report, pod = situation.status, situation.report, situation.pod
    if situation.epoch == 0:
        return False
    if report.opened or (status.pod_uid is not None and (pod is None or status.pod_uid == pod.uid)):
        return True
    if situation.keeps_archives is False:
        return situation.world.fenced_epoch == situation.epoch
    if situation.history is None or situation.is_fenced:
        return not _keeper_denies(situation)
    return False


def _keeper_denies(situation: Situation) -> bool:
    """Whether a keeper that is there now says that the gate was never opened, long enough after the stop began."""
    return situation.is_connected and situation.seconds_since(situation.stopping_since) >= SETTLE_SECONDS


def _keeps_archives(session: SandboxSession, sandbox: AgentSandbox | None) -> bool | None:
    """A run that began with archives keeps them to its end: a changed AgentSandbox must not cost what it did since."""
    if session.status.archives_on_stop:
        return True
    return sandbox.spec.snapshot.on_stop if sandbox is not None else None


def _our_pods(world: SessionWorld) -> tuple[SeenPod, ...] | None:
    if not isinstance(world.pods, Present):
        return () if isinstance(world.pods, Absent) else None
    ours = (pod for pod in world.pods.value if ownership.is_pod_of(pod, world.installation.id, world.session))
    seen = (see_pod(pod, world.session) for pod in ours)
    return tuple(sorted((pod for pod in seen if pod is not None), key=lambda pod: (pod.epoch, pod.uid)))


def _indexed(snapshots: Observed[tuple[KubeObject, ...]], slot: str) -> Mapping[int, Entry]:
    return snapshot.entries(snapshots.value, slot) if isinstance(snapshots, Present) else {}


def _admission(world: SessionWorld) -> Admission | Refusal | Unknown:
    name = world.session.spec.sandbox_ref.name
    if isinstance(world.sandbox, Unknown):
        return world.sandbox
    if isinstance(world.sandbox, Absent):
        message = f"spec.sandboxRef.name is {name}, and there is no such AgentSandbox"
        return refuse(RefusalCode.SANDBOX_UNAVAILABLE, message)
    sandbox = world.sandbox.value
    if sandbox.metadata.deletion_timestamp is not None:
        return refuse(RefusalCode.SANDBOX_UNAVAILABLE, f"AgentSandbox {name} is being deleted")
    return admission_of(sandbox, world.installation, world.session.spec.env)


def admission_of(
    sandbox: AgentSandbox, installation: Installation, env: Sequence[EnvVar] = ()
) -> Admission | Refusal | Unknown:
    """What an AgentSandbox gets here, and whether evidence could tell that it got it."""
    classes = installation.runtime_classes
    if not isinstance(classes, Present):
        return classes if isinstance(classes, Unknown) else Unknown("the RuntimeClasses are not known")
    forbidden = volumes.sources_refusal(sandbox, installation.operator_namespace)
    if forbidden is not None:
        return forbidden
    admitted = admit(sandbox, installation.backends, classes.value, env)
    if isinstance(admitted, Admission) and runtime.runtime_of(admitted.handler) is None:
        what = f"RuntimeClass {admitted.runtime_class} has the handler {admitted.handler}"
        return refuse(
            RefusalCode.RUNTIME_CLASS_MISMATCH,
            f"{what}, which cannot be told apart from inside a pod",
            "Use a tier whose RuntimeClass has a handler of runc, crun or gVisor (runsc).",
        )
    return admitted
