"""A cluster, a store and keepers as plain values, moved only by plans and by what a test makes happen.

It answers plans the way the real parts do (operator/keeper/PROTOCOL.md), instantly and without I/O, holds every plan
against the laws, and counts writes. Time moves only when nothing else can: to the moment that a plan asked for.

A workspace is one number here: the agent adds to it while it runs, an archive stores it, a restore brings it back.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sandhold import names
from sandhold.api.meta import moment, time_text
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.desired.plan import Apply, Create, Delete, Event, Fence, Order, Plan, WriteStatus
from sandhold.desired.pod import grace_seconds
from sandhold.desired.world import (
    ABSENT,
    Evidence,
    Guard,
    Keeper,
    KeeperReport,
    Kept,
    Manifest,
    Node,
    Observed,
    Present,
    RefusedRecord,
    SessionWorld,
    SlotHistory,
    StoreTrouble,
    Unknown,
)
from testkit import laws, worlds

Position = tuple[int, int]
SETTLED_SECONDS = 3600
"""A world in which nothing happens for so long has settled."""


class ConflictError(Exception):
    """A call that ends a pass."""


@dataclass
class SimulatedKeeper:
    """A keeper and the init beside it."""

    born: datetime
    report: KeeperReport = field(default_factory=KeeperReport)
    reported_at: datetime = worlds.NOW
    workspace: int = 0
    inits: int = 1
    ends_at: datetime | None = None
    opened_ever: bool = False
    stored: int | None = None
    """The workspace as its last archive holds it."""

    def says(self, now: datetime, **changes: Any) -> None:
        """A new report, if it says anything new."""
        changed = replace(self.report, **changes)
        if changed != self.report:
            self.report, self.reported_at = changed, now


@dataclass
class Faults:
    """What is broken at the moment."""

    store: bool = False
    mover: bool = False
    walls: bool = False
    canary_mover: bool = False
    """The mover whose canary is dialled was replaced, and nobody has its address."""
    image: bool = False
    records: bool = False
    """No SandboxSnapshot can be written."""
    deaf_agent: bool = False
    """It ignores SIGTERM and is killed when its grace is over."""


class Simulation:
    """One session and everything around it."""

    def __init__(self, sandbox: AgentSandbox | None = None, session: SandboxSession | None = None) -> None:
        self.now = worlds.NOW
        self.sandbox = Present(sandbox or worlds.a_sandbox())
        self.policy = Present(worlds.a_policy(self.sandbox.value))
        self.account = Present(worlds.an_account(self.sandbox.value))
        self.installation = worlds.an_installation()
        self.nodes = {"node-1": Node(is_cordoned=False, is_ready=True)}
        self.session: SandboxSession | None = session or worlds.a_session()
        self.pods: dict[str, dict[str, Any]] = {}
        self.keepers: dict[str, SimulatedKeeper] = {}
        self.store: dict[Position, tuple[Manifest, int]] = {}
        self.snapshots: dict[str, dict[str, Any]] = {}
        self.fenced: int | None = None
        self.posted: int | None = None
        self.record_refused: RefusedRecord | None = None
        self.faults = Faults()
        self.movers_since: datetime | None = self.now
        self.exit_code: int | None = None
        self.writes: list[str] = []
        self.events: list[Event] = []
        self.plans: list[Plan] = []
        self._unheard: dict[str, SimulatedKeeper] = {}
        """Keepers on a node that is cut off."""
        self.work = 0
        self.deleted_work: list[int] = []

    # What happens to it.

    def run(self, passes: int = 120) -> None:
        """Pass after pass until nothing is wanted any more; AssertionError when that does not happen."""
        for _ in range(passes):
            if self.session is None or not self.step():
                return
        raise AssertionError(f"not settled after {passes} passes; the last plan:\n{self.plans[-1]}")

    def step(self) -> bool:
        """One pass and what follows from it; False when nothing is left to happen."""
        if self.session is None:
            return False
        plan = laws.every_session_law(self.world())
        self.plans.append(plan)
        before = (len(self.writes), self._picture())
        self._carry_out(plan)
        self._move()
        if before != (len(self.writes), self._picture()):
            return True
        due = [plan.wake_after] if plan.wake_after is not None else []
        due += [(when - self.now).total_seconds() for when in self._dates()]
        is_settled = plan == Plan(wake_after=plan.wake_after)
        if not due or self.session is None or (is_settled and min(due) >= SETTLED_SECONDS):
            return False
        self.now += timedelta(seconds=max(min(due), 0.01))
        self._move()
        return True

    def until(self, phase: str, passes: int = 60) -> None:
        """Pass after pass until the session is in a phase."""
        for _ in range(passes):
            if self.phase == phase:
                return
            self.step()
        raise AssertionError(f"not {phase} after {passes} passes; the last plan:\n{self.plans[-1]}")

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self._move()

    def change(self, spec: dict[str, Any] | None = None, **metadata: Any) -> None:
        """What a person changes on the session."""
        assert self.session is not None
        document = self.session.wire()
        document["spec"] |= spec or {}
        document["metadata"] |= metadata
        if spec:
            document["metadata"]["generation"] = document["metadata"].get("generation", 0) + 1
        self.session = SandboxSession.model_validate(document)

    def delete(self) -> None:
        """kubectl delete."""
        if self.session is not None and not self.session.metadata.finalizers:
            self.session = None
        elif self.session is not None:
            self.change(deletionTimestamp=time_text(self.now))

    def lose_pod(self) -> None:
        """The pod and everything in it is gone at once."""
        for uid in list(self.pods):
            self._unheard.pop(uid, None)
            self._forget(uid)

    def evict(self) -> None:
        """The kubelet ends the pod; its object stays."""
        for uid, pod in self.pods.items():
            pod["status"] = worlds.pod_status(self.now, is_dead=True)
            self.keepers.pop(uid, None)

    def delete_pod(self) -> None:
        """kubectl delete pod."""
        for pod in self.pods.values():
            self._mark_deleted(pod, self._grace)

    def checkpoint(self) -> None:
        """The interval of every keeper is over: what changed is archived, with the grant that is held for it."""
        for keeper in self.keepers.values():
            kept, guard = keeper.report.kept, keeper.report.guard
            is_told = kept is not None and guard is not None and guard.interval_seconds > 0
            may = is_told and kept is not None and kept.checkpoint > self.now.timestamp() and keeper.ends_at is None
            if may and keeper.report.agent_state == "Running" and keeper.stored != keeper.workspace:
                self._archive(keeper, final=False)

    def fill(self, level: str) -> None:
        """Workspaces come to a level."""
        for keeper in self.keepers.values():
            if keeper.report.guard is not None:
                keeper.says(self.now, guard=replace(keeper.report.guard, level=level))

    def cordon(self, name: str = "node-1", *, is_cordoned: bool = True) -> None:
        """kubectl cordon, or uncordon."""
        self.nodes[name] = replace(self.nodes[name], is_cordoned=is_cordoned)
        for uid, pod in self.pods.items():
            if not is_cordoned and uid not in self.keepers and not self.faults.image:
                self._schedule(uid, pod)

    def set_archives(self, *, on_stop: bool) -> None:
        """Somebody turns archives off, or on, while sessions may be running."""
        sandbox = self.sandbox.value
        snapshot = sandbox.spec.snapshot.model_copy(update={"on_stop": on_stop})
        self.sandbox = Present(
            sandbox.model_copy(update={"spec": sandbox.spec.model_copy(update={"snapshot": snapshot})})
        )

    def find_node(self, name: str = "node-1") -> None:
        """It is back. What was deleted meanwhile ends now, and the other pods' keepers call home again."""
        if self.nodes[name].is_ready:
            return
        self.nodes[name] = replace(self.nodes[name], is_ready=True)
        for uid, keeper in self._unheard.items():
            if uid in self.pods:
                self.keepers[uid] = keeper
        self._unheard.clear()
        for uid, pod in self.pods.items():
            if "nodeName" not in pod["spec"]:
                self._schedule(uid, pod)

    def lose_node(self, name: str = "node-1") -> None:
        """Its kubelet is not heard of any more, and neither are the keepers on it."""
        self.nodes[name] = replace(self.nodes[name], is_ready=False)
        for uid, pod in self.pods.items():
            if pod["spec"].get("nodeName") == name and uid in self.keepers:
                self._unheard[uid] = self.keepers.pop(uid)

    def restart_keeper(self) -> None:
        """The keeper's process starts again: it knows its workspace and its word, and forgot what to dial."""
        for keeper in self.keepers.values():
            is_whole = keeper.report.workspace_state == "Ready"
            keeper.says(self.now, evidence=None, workspace_state="Ready" if is_whole else "Empty")

    def leave_in_place(self) -> None:
        """The kubelet ends the keeper's container and starts it again, in a pod that nobody deletes."""
        for keeper in self.keepers.values():
            if keeper.report.opened and keeper.report.agent_state == "Running":
                keeper.ends_at = self.now
                keeper.says(self.now, agent_state="Ended", agent_exit_code=143)
                kept = keeper.report.kept
                if kept is not None and kept.final > self.now.timestamp():
                    self._archive(keeper, final=True)

    def restart_init(self) -> None:
        """The agent container starts again."""
        for keeper in self.keepers.values():
            keeper.inits += 1
            challenge = f"{keeper.inits:032x}"
            keeper.says(self.now, challenge=challenge, agent_state="Waiting")
            if keeper.report.evidence is not None:
                keeper.says(self.now, evidence=self._evidence(keeper))

    # What it looks like.

    def world(self) -> SessionWorld:
        """What an observer sees."""
        assert self.session is not None
        if self.faults.mover:
            self.movers_since = None
        elif self.movers_since is None:
            self.movers_since = self.now
        live = {uid: self._seen_keeper(keeper) for uid, keeper in self.keepers.items()}
        return worlds.a_world(
            now=self.now,
            session=self.session,
            installation=replace(self.installation, nodes=Present(dict(self.nodes))),
            sandbox=self.sandbox,
            policy=self.policy,
            service_account=self.account,
            pods=tuple(self.pods.values()),
            keepers=live,
            history=self._history(),
            snapshots=tuple(self.snapshots.values()),
            fenced_epoch=self.fenced,
            posted_epoch=self.posted,
            record_refused=self.record_refused,
        )

    @property
    def phase(self) -> str | None:
        """The session's phase."""
        return self.session.status.phase if self.session is not None else None

    def condition(self, name: str) -> tuple[str, str]:
        """Status and reason of one of its conditions."""
        assert self.session is not None
        found = next(one for one in self.session.status.conditions if one.type == name)
        return found.status, found.reason

    def reasons(self) -> list[str]:
        """The reasons of all Events so far."""
        return [event.reason for event in self.events]

    def _seen_keeper(self, keeper: SimulatedKeeper) -> Keeper:
        since = None if self.movers_since is None else max(self.movers_since, keeper.born)
        return Keeper(not self.faults.mover, keeper.report, keeper.reported_at, since)

    def _history(self) -> Observed[SlotHistory] | StoreTrouble:
        assert self.session is not None
        is_kept = self.sandbox.value.spec.snapshot.on_stop or self.session.status.archives_on_stop
        if not is_kept and self.session.status.snapshot is None and not self.snapshots:
            return ABSENT
        if self.faults.mover:
            return Unknown("no mover answered")
        if self.faults.store:
            return StoreTrouble("snapshot_store_unavailable", "the bucket does not answer", retryable=True)
        if not self.store:
            return Present(SlotHistory(None, None))
        head = self.store[max(self.store)][0]
        if head.kind == "Archive":
            return Present(SlotHistory(head, head))
        content = self.store[head.parent][0] if head.parent is not None else None
        return Present(SlotHistory(head, content))

    def _picture(self) -> Any:
        reports = {uid: (keeper.report, keeper.ends_at) for uid, keeper in self.keepers.items()}
        session = self.session.wire() if self.session is not None else None
        marks = {uid: pod["metadata"].get("deletionTimestamp") for uid, pod in self.pods.items()}
        return session, reports, marks, sorted(self.store), sorted(self.snapshots), self.fenced, self.record_refused

    def _dates(self) -> list[datetime]:
        """When something happens by itself."""
        ends = [keeper.ends_at for keeper in self.keepers.values() if keeper.ends_at is not None]
        gone = [moment(pod["metadata"].get("deletionTimestamp")) for pod in self.pods.values()]
        return [when for when in (*ends, *gone) if when is not None and when > self.now]

    # How plans change it.

    def _carry_out(self, plan: Plan) -> None:
        assert self.session is not None
        try:
            if plan.finalizer_add is not None:
                self.writes.append("finalizer")
                self._finalizers([*self.session.metadata.finalizers, plan.finalizer_add])
            for write in plan.writes:
                self._write(write)
            for call in plan.calls:
                self._call(call)
        except ConflictError:
            return
        if plan.status is not None:
            self.writes.append("status")
            document = {**self.session.wire(), "status": dict(plan.status)}
            self.session = SandboxSession.model_validate(document)
        self.events += plan.events
        if plan.finalizer_remove is not None:
            self.writes.append("finalizer off")
            self._finalizers([each for each in self.session.metadata.finalizers if each != plan.finalizer_remove])
            if not self.session.metadata.finalizers and self.session.metadata.deletion_timestamp is not None:
                self.session = None

    def _finalizers(self, finalizers: list[str]) -> None:
        self.change(finalizers=finalizers)

    def _write(self, write: Create | Apply | Delete | WriteStatus) -> None:
        match write:
            case Create(document) if document["kind"] == "Pod":
                self._post(document)
            case Create(document):
                name = document["metadata"]["name"]
                self._record(name)
                if name not in self.snapshots:
                    self.writes.append("snapshot")
                    self.snapshots[name] = {**worlds.with_server_metadata(document, f"uid-{name}"), "status": {}}
            case WriteStatus(reference, status):
                self._record(reference.name)
                self.record_refused = None
                self.writes.append("snapshot status")
                self.snapshots[reference.name]["status"] = dict(status)
            case Delete(_, uid, _, grace):
                self.writes.append("delete")
                self.posted = None
                self._mark_deleted(self.pods[uid], self._grace if grace is None else grace)
            case Apply():
                raise AssertionError("nothing is applied in these stories")

    def _record(self, name: str) -> None:
        """A SandboxSnapshot is written, unless none can be: then that is noted, and the pass ends."""
        if not self.faults.records:
            return
        before = self.record_refused
        since = before.since if before is not None and before.name == name else self.now
        why = f"SandboxSnapshot {name} was not written: exceeded quota"
        self.record_refused = RefusedRecord(name, why, since, self.now, is_an_answer=True)
        raise ConflictError

    def _post(self, document: Any) -> None:
        uid = worlds.pod_uid(int(document["metadata"]["annotations"][names.ANNOTATION_EPOCH]))
        if uid in self.pods:
            raise ConflictError
        self.writes.append("pod")
        self.posted = int(document["metadata"]["annotations"][names.ANNOTATION_EPOCH])
        stored = worlds.with_server_defaults(worlds.with_server_metadata(document, uid, self.now))
        stored["status"] = worlds.pod_status(self.now)
        if self.faults.image:
            stored["status"]["initContainerStatuses"] = [
                {"name": "keeper", "state": {"waiting": {"reason": "ErrImagePull"}}}
            ]
        self.pods[uid] = stored
        del stored["spec"]["nodeName"]
        self._schedule(uid, stored)

    def _schedule(self, uid: str, pod: dict[str, Any]) -> None:
        """Where there is a node, the pod runs there and its keeper calls home."""
        node = next((name for name, each in self.nodes.items() if each.is_ready and not each.is_cordoned), None)
        if node is None:
            pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
            return
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        if not self.faults.image:
            challenge = f"{1:032x}"
            self.keepers[uid] = SimulatedKeeper(self.now, reported_at=self.now)
            self.keepers[uid].says(self.now, challenge=challenge, agent_state="Waiting")

    @property
    def _grace(self) -> int:
        return grace_seconds(self.sandbox.value)

    def _mark_deleted(self, pod: dict[str, Any], grace: int) -> None:
        end, before = self.now + timedelta(seconds=grace), moment(pod["metadata"].get("deletionTimestamp"))
        if before is None or end < before:
            pod["metadata"] |= {"deletionTimestamp": time_text(end), "deletionGracePeriodSeconds": grace}

    def _forget(self, uid: str) -> None:
        keeper = self.keepers.pop(uid, None)
        del self.pods[uid]
        if keeper is not None and keeper.opened_ever:
            self.deleted_work.append(keeper.workspace)

    def _call(self, call: Order | Fence) -> None:
        if self.faults.mover or (isinstance(call, Fence) and self.faults.store):
            raise ConflictError
        if isinstance(call, Fence):
            assert self.store == {} or max(self.store)[0] <= call.epoch, "a fence below the head"
            self.store.setdefault((call.epoch, 0), (replace(worlds.a_fence(call.epoch), parent=call.parent), 0))
            self.fenced = call.epoch
            return
        keeper = self.keepers.get(call.pod_uid)
        if keeper is None:
            raise ConflictError
        getattr(self, f"_order_{call.verb}")(keeper, call)

    def _order_entries(self, keeper: SimulatedKeeper, order: Order) -> None:
        assert keeper.report.workspace_state != "Ready"
        assert order.arguments["index"] < order.arguments["count"]

    def _order_prepare(self, keeper: SimulatedKeeper, order: Order) -> None:
        if keeper.report.workspace_state == "Ready":
            keeper.says(self.now, evidence=self._evidence(keeper))
            return
        source = order.arguments["source"]
        if source is not None and self.faults.store:
            keeper.says(self.now, workspace_state="Preparing")
            keeper.says(self.now, workspace_state="Failed", workspace_code="snapshot_store_unavailable")
            keeper.reported_at = self.now
            return
        if source is not None:
            assert order.grant is not None
            keeper.workspace = self.store[source["epoch"], source["sequence"]][1]
        keeper.says(
            self.now,
            workspace_state="Ready",
            workspace_code="",
            marker_slot=order.arguments["slot"],
            marker_epoch=order.arguments["epoch"],
            marker_recovery="Initialized" if source is None else "Restored",
            marker_source=None if source is None else (source["epoch"], source["sequence"]),
            evidence=self._evidence(keeper),
        )

    def _evidence(self, keeper: SimulatedKeeper) -> Evidence:
        canary = "Connected" if self.faults.walls else "Refused"
        mover = "TimedOut" if self.faults.canary_mover else "Connected"
        return worlds.some_evidence(keeper.report.challenge, canary=canary, mover=mover)

    def _order_open(self, keeper: SimulatedKeeper, order: Order) -> None:
        if order.arguments["challenge"] == keeper.report.challenge and keeper.ends_at is None:
            keeper.opened_ever = True
            keeper.says(self.now, opened=keeper.report.challenge, agent_state="Running")

    def _order_end(self, keeper: SimulatedKeeper, order: Order) -> None:
        if keeper.ends_at is None:
            seconds = order.arguments["graceSeconds"] if self.faults.deaf_agent else 0
            keeper.ends_at = self.now + timedelta(seconds=seconds)

    def _order_archive(self, keeper: SimulatedKeeper, order: Order) -> None:
        assert order.grant is not None
        report, sequence = keeper.report, order.arguments["sequence"]
        is_done = report.archive_state == "Stored" and report.archive_is_final
        if not keeper.opened_ever or (is_done and (report.archive_sequence or 0) >= sequence):
            return
        self._archive(keeper, final=True, lowest=sequence)

    def _order_keep(self, keeper: SimulatedKeeper, order: Order) -> None:
        assert order.grant is not None
        assert (order.grant["epoch"], order.grant["slot"]) == (keeper.report.marker_epoch, keeper.report.marker_slot)
        kind = "final" if order.arguments["final"] else "checkpoint"
        keeper.says(self.now, kept=replace(keeper.report.kept or Kept(), **{kind: order.arguments["expires"]}))

    def _order_guard(self, keeper: SimulatedKeeper, order: Order) -> None:
        said = order.arguments
        level = keeper.report.guard.level if keeper.report.guard is not None else "Normal"
        keeper.says(self.now, guard=Guard(level, said["sizeBytes"], said["limitBytes"], said["intervalSeconds"]))

    def _archive(self, keeper: SimulatedKeeper, *, final: bool, lowest: int = 1) -> None:
        """What a mover makes of an archive: it gives the number."""
        epoch = keeper.report.marker_epoch
        assert epoch is not None
        if self.faults.store or self.faults.mover:
            told = {"archive_sequence": lowest, "archive_code": "snapshot_store_unavailable"}
            keeper.says(self.now, archive_state="Failed", archive_is_final=final, **told)
            keeper.reported_at = self.now
            return
        taken = [sequence for each, sequence in self.store if each == epoch]
        archive = worlds.an_archive(epoch, max(lowest, max(taken, default=0) + 1), final=final)
        self.store[epoch, archive.sequence] = (archive, keeper.workspace)
        keeper.stored = keeper.workspace
        told = {"archive_sequence": archive.sequence, "archive_code": ""}
        keeper.says(self.now, archive_state="Stored", archive_is_final=final, **told)

    def _leave(self, keeper: SimulatedKeeper) -> None:
        """What the keeper of a deleted pod does by itself."""
        report = keeper.report
        is_done = report.archive_state == "Stored" and report.archive_is_final
        holds = report.kept is not None and report.kept.final > self.now.timestamp()
        if keeper.opened_ever and holds and not is_done and report.agent_state == "Ended":
            self._archive(keeper, final=True)

    def _move(self) -> None:
        """Agents work and end, pods go."""
        for keeper in self.keepers.values():
            if keeper.report.agent_state == "Running":
                self.work += 1
                keeper.workspace += 1
                if self.exit_code is not None:
                    keeper.says(self.now, agent_state="Ended", agent_exit_code=self.exit_code)
            if keeper.ends_at is not None and keeper.ends_at <= self.now and keeper.report.agent_state != "Ended":
                keeper.says(self.now, agent_state="Ended", agent_exit_code=143)
        for uid, pod in list(self.pods.items()):
            end = moment(pod["metadata"].get("deletionTimestamp"))
            beside = self.keepers.get(uid)
            if end is not None and beside is not None and beside.report.agent_state == "Running":
                beside.says(self.now, agent_state="Ended", agent_exit_code=143)
            if end is not None and beside is not None:
                self._leave(beside)
            if end is not None and end <= self.now and self._is_heard_of(pod):
                self._forget(uid)

    def _is_heard_of(self, pod: dict[str, Any]) -> bool:
        node = pod["spec"].get("nodeName")
        return node is None or self.nodes[node].is_ready
