"""What is beyond the operator's two doors, in memory: kubelet, keepers and movers, on a clock that tests move.

A pod that is created becomes Running, its keeper calls home and obeys orders; archives become manifests; a deleted pod
ends. It is strict where the real ones are: orders that make no sense and grants that do not verify are refused, and it
keeps a list of what must never happen (`violations`): two pods of one session at once, content that went without an
archive.
"""

import hashlib
import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sandhold import names
from sandhold.desired.plan import Fence
from sandhold.desired.world import (
    Evidence,
    Keeper,
    KeeperReport,
    ProbeOutcome,
    SlotHistory,
    StoreTrouble,
    Unknown,
)
from sandhold.errors import ConflictError, ForbiddenError, NotFoundError, UnavailableError
from sandhold.mover.grant import Grant, Verb, verify_grant
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.fake_store import FakeStore
from testkit.object_store import Document, reference_to


@dataclass
class Behaviour:
    """What a test may turn: everything is healthy by default."""

    store_is_down: bool = False
    movers_are_away: bool = False
    archives_fail: int = 0
    """So many archives fail with `snapshot_store_unavailable` before one succeeds."""
    agent_obeys: bool = True
    """Whether SIGTERM ends the agent at once; else it takes the grace of the order."""
    runtime_banner: str | None = None
    probes: dict[str, str] = field(default_factory=dict)
    """Outcomes by name of the probe; what is not here is `Refused`."""
    kubelet_works: bool = True


@dataclass
class Running:
    """One pod with its keeper."""

    pod: Document
    session_uid: str
    report: KeeperReport = field(default_factory=KeeperReport)
    connected: bool = False
    files: set[str] = field(default_factory=set)
    slot: str = ""
    epoch: int = 0
    was_opened: bool = False
    entries: dict[str, dict[int, str]] = field(default_factory=dict)
    orders: list[str] = field(default_factory=list)
    probes: tuple[str, ...] = ()


class FakeHome:
    """Implements `sandhold.cluster.door.Movers`, and plays kubelet on a FakeCluster."""

    def __init__(self, cluster: FakeCluster, clock: FakeClock, grant_keys: tuple[Ed25519PublicKey, ...]) -> None:
        self.behaviour = Behaviour()
        self.pods: dict[str, Running] = {}
        self.store = FakeStore(clock)
        self.violations: list[str] = []
        self.orders: list[str] = []
        self._cluster = cluster
        self._clock = clock
        self._grant_keys = grant_keys
        self._callbacks: list[Callable[[str], None]] = []
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        cluster.objects.watch(self._seen)

    # --- what tests do -------------------------------------------------------------------------------------------

    def write_file(self, session_uid: str, name: str) -> None:
        """The agent writes a file into its workspace."""
        for running in self.pods.values():
            if running.session_uid == session_uid and running.report.agent_state == "Running":
                running.files.add(name)
                return
        raise AssertionError(f"no agent of session {session_uid} runs")

    def files_of(self, session_uid: str) -> set[str]:
        """What the running workspace of a session holds."""
        return next(running.files for running in self.pods.values() if running.session_uid == session_uid)

    def end_agent(self, session_uid: str, exit_code: int) -> None:
        """The agent exits by itself."""
        for uid, running in self.pods.items():
            if running.session_uid == session_uid:
                self._report(uid, agent_state="Ended", agent_exit_code=exit_code)

    def restart_init(self, session_uid: str) -> None:
        """Init starts again (container restart, reboot): a new challenge, and nothing of the agent runs."""
        for uid, running in self.pods.items():
            if running.session_uid == session_uid:
                challenge = self._challenge()
                self._report(uid, challenge=challenge, agent_state="Waiting", agent_exit_code=None)
                self._later(0.2, lambda uid=uid: self._gather_evidence(uid))  # type: ignore[misc]

    def lose_pod(self, session_uid: str) -> None:
        """The node is gone, and with it the pod and its workspace."""
        for uid, running in tuple(self.pods.items()):
            if running.session_uid == session_uid:
                running.was_opened = False  # the loss is the test's doing, not the operator's
                self._cluster.objects.vanish(reference_to(self.pods[uid].pod))

    def forget_subscribers(self) -> None:
        """The operator's process is gone."""
        self._callbacks.clear()

    @property
    def next_due(self) -> datetime | None:
        """When the next thing happens by itself."""
        return self._due[0][0] if self._due else None

    def act(self) -> bool:
        """Do what is due; whether anything was."""
        acted = False
        while self._due and self._due[0][0] <= self._clock():
            heapq.heappop(self._due)[2]()
            acted = True
        return acted

    # --- Movers ----------------------------------------------------------------------------------------------------

    def keepers(self) -> Mapping[str, Keeper]:
        """Every keeper that called home."""
        away = self.behaviour.movers_are_away
        return {
            uid: Keeper(connected=running.connected and not away, report=running.report)
            for uid, running in self.pods.items()
            if running.connected
        }

    def subscribe(self, callback: Callable[[str], None]) -> None:
        """Call back on every change."""
        self._callbacks.append(callback)

    async def history(self, store: str, slot: str) -> SlotHistory | StoreTrouble | Unknown:
        """What the store holds of a slot."""
        trouble = self._trouble()
        return trouble if trouble is not None else self.store.history((store, slot))

    async def fence(self, fence: Fence) -> StoreTrouble | None:
        """Write a fence, as the mover does."""
        number = self._before(f"fence {fence.epoch}")
        trouble = self._trouble()
        if isinstance(trouble, Unknown):
            raise UnavailableError(trouble.why)
        if trouble is not None:
            return trouble
        refusal = self.store.fence(fence)
        self._cluster.faults.after(number)
        return refusal

    async def order(self, pod_uid: str, order: Mapping[str, Any]) -> None:
        """Give an order to a keeper."""
        verb = str(order["verb"])
        number = self._before(f"order {verb}")
        running = self.pods.get(pod_uid)
        if running is None or not running.connected or self.behaviour.movers_are_away:
            raise UnavailableError(f"no mover holds the keeper of pod {pod_uid}")
        self.orders.append(verb)
        running.orders.append(verb)
        obey = {
            "entries": self._obey_entries,
            "prepare": self._obey_prepare,
            "open": self._obey_open,
            "end": self._obey_end,
            "archive": self._obey_archive,
        }[verb]
        obey(pod_uid, running, order)
        self._cluster.faults.after(number)

    def _before(self, what: str) -> int:
        try:
            return self._cluster.faults.before(what)
        except (ConflictError, ForbiddenError) as error:
            raise UnavailableError(str(error)) from error

    def _trouble(self) -> StoreTrouble | Unknown | None:
        if self.behaviour.movers_are_away:
            return Unknown("no mover answered what the store holds")
        if self.behaviour.store_is_down:
            return StoreTrouble("snapshot_store_unavailable", "the store does not answer", retryable=True)
        return None

    # --- the keeper --------------------------------------------------------------------------------------------------

    def _obey_entries(self, _uid: str, running: Running, order: Mapping[str, Any]) -> None:
        assert 0 <= order["index"] < order["count"]
        running.entries.setdefault(order["digest"], {})[order["index"]] = order["data"]

    def _obey_prepare(self, uid: str, running: Running, order: Mapping[str, Any]) -> None:
        if running.report.workspace_state in ("Preparing", "Ready"):
            return
        if order.get("writeEntries") and order.get("entriesDigest"):
            assert order["entriesDigest"] in running.entries, "prepare before the entries it names"
        running.slot, running.epoch = order["slot"], order["epoch"]
        source = order.get("source")
        restored: frozenset[str] = frozenset()
        if source is not None:
            grant = self._grant(order, Verb.RESTORE, uid)
            assert grant.source is not None
            position = (source["epoch"], source["sequence"])
            assert (grant.slot, (grant.source.epoch, grant.source.sequence)) == (order["slot"], position)
            if self.behaviour.store_is_down:
                self._report(
                    uid, workspace_state="Failed", workspace_code="snapshot_store_unavailable", workspace_message="down"
                )
                return
            restored = self.store.slots[grant.store, grant.slot][position].content
        probes = tuple(probe["name"] for probe in order["probes"])
        self._report(uid, workspace_state="Preparing", workspace_code="", workspace_message="")
        self._later(0.2, lambda: self._prepared(uid, restored, probes, is_new=source is None))

    def _prepared(self, uid: str, files: frozenset[str], probes: tuple[str, ...], *, is_new: bool) -> None:
        running = self.pods.get(uid)
        if running is None:
            return
        running.files = set(files)
        running.probes = probes
        self._report(
            uid,
            workspace_state="Ready",
            marker_slot=running.slot,
            marker_epoch=running.epoch,
            marker_recovery="Initialized" if is_new else "Restored",
        )
        self._later(0.1, lambda: self._gather_evidence(uid))

    def _gather_evidence(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is None or running.report.workspace_state != "Ready":
            return
        banner = self.behaviour.runtime_banner
        if banner is None:
            gvisor = "gvisor" in str(running.pod["spec"].get("runtimeClassName", ""))
            banner = "Linux version 4.19.0-gvisor" if gvisor else "Linux version 6.8.0-64-generic"
        outcomes = tuple(ProbeOutcome(name, self.behaviour.probes.get(name, "Refused")) for name in running.probes)
        self._report(uid, evidence=Evidence(running.report.challenge, banner, outcomes))

    def _obey_open(self, uid: str, running: Running, order: Mapping[str, Any]) -> None:
        report = running.report
        if (
            report.workspace_state != "Ready"
            or order["challenge"] != report.challenge
            or report.opened == report.challenge
        ):
            return
        if not self.store.has_fence(running.epoch):
            self.violations.append(f"the gate of epoch {running.epoch} opened without a fence")
        running.was_opened = True
        self._report(uid, opened=report.challenge)
        self._later(0.05, lambda: self._agent_starts(uid))

    def _agent_starts(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is not None and running.report.agent_state == "Waiting":
            self._report(uid, agent_state="Running")
            self._cluster.objects.change(reference_to(running.pod), lambda pod: _make_ready(pod, ready=True))

    def _obey_end(self, uid: str, _running: Running, order: Mapping[str, Any]) -> None:
        delay = 0.1 if self.behaviour.agent_obeys else float(order["graceSeconds"])
        self._later(delay, lambda: self._agent_ends(uid))

    def _agent_ends(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is not None and running.report.agent_state != "Ended":
            self._report(uid, agent_state="Ended", agent_exit_code=0)

    def _obey_archive(self, uid: str, running: Running, order: Mapping[str, Any]) -> None:
        report = running.report
        sequence = order["sequence"]
        if report.archive_sequence == sequence and report.archive_state in ("Running", "Stored"):
            return
        if report.marker_epoch is None or not report.opened:
            self._failed(uid, sequence, "workspace_setup_failed")
            return
        grant = self._grant(order, Verb.ARCHIVE, uid)
        assert (grant.slot, grant.epoch) == (running.slot, running.epoch), "a grant for another slot or epoch"
        assert (grant.sequence, grant.final) == (sequence, order["final"])
        self._report(uid, archive_sequence=sequence, archive_state="Running", archive_code="", archive_message="")
        self._later(0.3, lambda: self._archived(uid, grant))

    def _archived(self, uid: str, grant: Grant) -> None:
        running = self.pods.get(uid)
        if running is None:
            return
        if self.behaviour.store_is_down or self.behaviour.archives_fail:
            self.behaviour.archives_fail = max(self.behaviour.archives_fail - 1, 0)
            self._failed(uid, grant.sequence, "snapshot_store_unavailable")
            return
        position = (grant.epoch, grant.sequence)
        place = (grant.store, grant.slot)
        there = self.store.slots.get(place, {}).get(position)
        if there is not None and there.content != frozenset(running.files):
            self.violations.append(f"archive {position} was written twice with different content")
        elif there is None:
            self.store.put(place, position, frozenset(running.files), final=grant.final)
        self._report(uid, archive_sequence=grant.sequence, archive_state="Stored")

    def _failed(self, uid: str, sequence: int, code: str) -> None:
        self._report(
            uid,
            archive_sequence=sequence,
            archive_state="Failed",
            archive_code=code,
            archive_message="told by the fake",
        )

    def _grant(self, order: Mapping[str, Any], verb: Verb, uid: str) -> Grant:
        return verify_grant(order["grant"], self._grant_keys, verb=verb, pod_uid=uid, now=self._clock().timestamp())

    def _report(self, uid: str, **changes: Any) -> None:
        running = self.pods.get(uid)
        if running is None:
            return
        changed = replace(running.report, **changes)
        if changed != running.report:
            running.report = changed
            self._call_back(uid)

    def _call_back(self, uid: str) -> None:
        if not self.behaviour.movers_are_away:
            for callback in tuple(self._callbacks):
                callback(uid)

    def movers_come_and_go(self, *, away: bool) -> None:
        """All movers leave, or are back."""
        self.behaviour.movers_are_away = away
        for uid in self.pods:
            for callback in tuple(self._callbacks):
                callback(uid)

    # --- the kubelet -------------------------------------------------------------------------------------------------

    def _seen(self, event: str, document: Document) -> None:
        if document["kind"] != "Pod":
            return
        uid = document["metadata"]["uid"]
        session_uid = document["metadata"].get("labels", {}).get(names.LABEL_SESSION_UID)
        if session_uid is None:
            return
        if event == "ADDED":
            others = [each for each in self.pods.values() if each.session_uid == session_uid]
            if others:
                self.violations.append(f"pod {document['metadata']['name']} was created beside another of its session")
            self.pods[uid] = Running(document, session_uid)
            self._later(0.3, lambda: self._starts(uid))
        elif event == "MODIFIED":
            self.pods[uid].pod = document
            if "deletionTimestamp" in document["metadata"]:
                grace = document["metadata"]["deletionGracePeriodSeconds"]
                self._later(min(grace, 1), lambda: self._ends(uid))
        elif uid in self.pods:
            self._gone(uid)

    def _starts(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is None or not self.behaviour.kubelet_works or running.pod["spec"].get("nodeName"):
            return
        reference = reference_to(running.pod)
        self._cluster.objects.change(reference, lambda pod: pod["spec"].update(nodeName="node-1"))
        self._cluster.objects.change(reference, _make_running)
        self._later(0.1, lambda: self._calls_home(uid))

    def _calls_home(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is not None:
            running.connected = True
            running.report = KeeperReport(challenge=self._challenge(), agent_state="Waiting")
            self._call_back(uid)

    def _ends(self, uid: str) -> None:
        running = self.pods.get(uid)
        if running is None or not self.behaviour.kubelet_works:
            return
        try:
            self._cluster.objects.delete(reference_to(running.pod), uid, grace=0)
        except (NotFoundError, ConflictError):
            self._gone(uid)

    def _gone(self, uid: str) -> None:
        running = self.pods.pop(uid)
        if running.was_opened and not self.store.has_archive(running.slot, running.epoch):
            self.violations.append(f"pod {running.pod['metadata']['name']} went without an archive of its epoch")
        running.connected = False
        self._call_back(uid)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._clock() + timedelta(seconds=seconds), next(self._numbers), action))

    def _challenge(self) -> str:
        return hashlib.sha256(str(next(self._numbers)).encode()).hexdigest()[:32]


def _make_running(pod: Document) -> None:
    now = pod["metadata"]["creationTimestamp"]
    pod["status"] = {
        "phase": "Running",
        "podIP": "10.244.0.9",
        "hostIP": "172.31.0.10",
        "startTime": now,
        "qosClass": "Burstable",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
            {"type": "Initialized", "status": "True", "lastTransitionTime": now},
            {"type": "ContainersReady", "status": "False", "lastTransitionTime": now},
            {"type": "Ready", "status": "False", "lastTransitionTime": now},
        ],
        "initContainerStatuses": [
            {
                "name": names.KEEPER_CONTAINER,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
        "containerStatuses": [
            {
                "name": names.AGENT_CONTAINER,
                "ready": False,
                "started": True,
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
    }


def _make_ready(pod: Document, *, ready: bool) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "True" if ready else "False"
    for status in pod["status"]["containerStatuses"]:
        status["ready"] = ready
