"""One keeper and the agent beside it: a workspace that is a set of file names, orders that are obeyed after a while.

Strict where the real one is: an order that makes no sense, or a grant that does not verify, is an assertion.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sandhold.desired.world import Evidence, Guard, KeeperReport, Kept, ProbeOutcome
from sandhold.mover.grant import Grant, Verb, verify_grant
from testkit.clock import Agenda, FakeClock
from testkit.fake_store import FakeStore
from testkit.object_store import Document

GVISOR_BANNER = "Linux version 4.19.0-gvisor #1 SMP"
RUNC_BANNER = "Linux version 6.8.0-64-generic (buildd@host) #67 SMP"


@dataclass
class Behaviour:
    """What a test may turn: everything is healthy by default."""

    store_is_down: bool = False
    movers_are_away: bool = False
    kubelet_works: bool = True
    keepers_call_home: bool = True
    archives_fail: int = 0
    """So many archives fail with `snapshot_store_unavailable` before one succeeds."""
    verdicts_lost: int = 0
    """So many archives are stored without their keepers hearing of it; then somebody writes on, by an exec."""
    keeps_archives: bool = True
    """Whether a gate needs a fence, and content that goes needs an archive."""
    agent_obeys: bool = True
    """Whether SIGTERM ends the agent at once; else it takes the grace of the order."""
    init_is_mute: bool = False
    """Whether the agent keeps init from saying that it ended: it owns the hints, and under gVisor it can stop init."""
    runtime_banner: str | None = None
    probes: dict[str, str] = field(default_factory=dict)
    """Outcomes by name of the probe; what is not here is `Refused`."""


@dataclass(frozen=True)
class Surroundings:
    """What all keepers share."""

    clock: FakeClock
    agenda: Agenda
    store: FakeStore
    behaviour: Behaviour
    grant_keys: tuple[Ed25519PublicKey, ...]
    violations: list[str]


class FakeKeeper:
    """A keeper in one pod."""

    def __init__(
        self, pod: Document, session_uid: str, around: Surroundings, told: Callable[["FakeKeeper"], None]
    ) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.session_uid = session_uid
        self.report = KeeperReport()
        self.reported_at = around.clock()
        self.called_at = around.clock()
        self.connected = False
        self.files: set[str] = set()
        self.fresh: set[str] = set()
        """What the agent of this very pod wrote."""
        self.slot = ""
        self.epoch = 0
        self.was_opened = False
        """Whether the agent may have written anything that an archive must hold."""
        self.agent_is_gone = False
        """Whether the agent was ended, whatever the report says."""
        self.orders: list[str] = []
        self._around = around
        self._told = told
        self._is_gone = False
        self._starts = 0
        self._entries: dict[str, set[int]] = {}
        self._probes: tuple[str, ...] = ()
        self._grants: dict[bool, Grant] = {}
        """Standing ones, by whether they are final."""
        self._archives: Grant | None = None
        self._waits: Grant | None = None
        """An order that came while a checkpoint ran."""
        self._stored: tuple[frozenset[str], bool] | None = None
        """What the last archive holds, and whether it was final."""
        self._has_clock = False
        self._is_ending = False

    def call_home(self) -> None:
        """The keeper's first connection: init waits, the workspace is empty."""
        if not self._is_gone and self._around.behaviour.keepers_call_home:
            self.connected = True
            self.called_at = self._around.clock()
            self.say(challenge=self._next_challenge(), agent_state="Waiting")

    def restart_init(self) -> None:
        """Init starts again (container restart, reboot): a new challenge, and nothing of the agent runs."""
        self.say(challenge=self._next_challenge(), agent_state="Waiting", agent_exit_code=None)
        self._later(0.2, self._gather_evidence)

    def leave(self) -> None:
        """The pod is gone."""
        self._is_gone = True
        self.connected = False

    def say(self, **changes: Any) -> None:
        """Change the report and send it."""
        changed = replace(self.report, **changes)
        if changed != self.report:
            self.report = changed
            self.reported_at = self._around.clock()
            self._told(self)

    def obey(self, order: Mapping[str, Any]) -> None:
        """Do what an order says, soon."""
        verb = str(order["verb"])
        self.orders.append(verb)
        orders = {
            "entries": self._take_entries,
            "prepare": self._prepare,
            "open": self._open,
            "end": self._end,
            "archive": self._archive,
            "keep": self._keep,
            "guard": self._guard,
        }
        orders[verb](order)

    def _take_entries(self, order: Mapping[str, Any]) -> None:
        assert 0 <= order["index"] < order["count"], order
        self._entries.setdefault(order["digest"], set()).add(order["index"])

    def _prepare(self, order: Mapping[str, Any]) -> None:
        self._probes = tuple(probe["name"] for probe in order["probes"])
        if self.report.evidence is not None:
            self._later(0.2, self._gather_evidence)  # asked again
        if self.report.workspace_state in ("Preparing", "Ready"):
            return
        if order["entriesDigest"] != hashlib.sha256(b"[]").hexdigest():
            assert order["entriesDigest"] in self._entries, "prepare came before the entries that it names"
        self.slot, self.epoch = order["slot"], order["epoch"]
        restored = self._restored(order)
        if restored is None:
            self.say(workspace_state="Failed", workspace_code="snapshot_store_unavailable", workspace_message="down")
            return
        self.say(workspace_state="Preparing", workspace_code="", workspace_message="")
        source = order["source"] and (order["source"]["epoch"], order["source"]["sequence"])
        self._later(0.2, lambda: self._prepared(restored, source))

    def _restored(self, order: Mapping[str, Any]) -> frozenset[str] | None:
        """What the archive holds that an order names; None while the store is down."""
        source = order["source"]
        if source is None:
            return frozenset()
        grant = self._grant(order, Verb.RESTORE)
        position = (source["epoch"], source["sequence"])
        assert grant.source is not None
        assert (grant.slot, grant.source.epoch, grant.source.sequence) == (order["slot"], *position), grant
        if self._around.behaviour.store_is_down:
            return None
        return self._around.store.slots[grant.store, grant.slot][position].content

    def _prepared(self, files: frozenset[str], source: tuple[int, int] | None) -> None:
        recovery = "Initialized" if source is None else "Restored"
        self.files = set(files)
        marker = {"marker_slot": self.slot, "marker_epoch": self.epoch, "marker_recovery": recovery}
        self.say(workspace_state="Ready", marker_source=source, **marker)
        self._later(0.1, self._gather_evidence)

    def _gather_evidence(self) -> None:
        if self.report.workspace_state != "Ready":
            return
        behaviour = self._around.behaviour
        banner = behaviour.runtime_banner
        if banner is None:
            banner = GVISOR_BANNER if self.pod["spec"].get("runtimeClassName") == "gvisor" else RUNC_BANNER
        usual = {"mover": "Connected", **behaviour.probes}
        outcomes = tuple(ProbeOutcome(name, usual.get(name, "Refused")) for name in self._probes)
        self.say(evidence=Evidence(self.report.challenge, banner, outcomes))

    def _open(self, order: Mapping[str, Any]) -> None:
        report = self.report
        if report.workspace_state != "Ready" or order["challenge"] != report.challenge:
            return
        if report.opened == report.challenge:
            return
        if self._around.behaviour.keeps_archives and not self._around.store.has_fence(self.slot, self.epoch):
            self._around.violations.append(f"the gate of epoch {self.epoch} opened without a fence")
        if report.evidence is None or report.evidence.challenge != report.challenge:
            self._around.violations.append(f"the gate of epoch {self.epoch} opened without evidence")
        self.was_opened = self._around.behaviour.keeps_archives
        self.say(opened=report.challenge)
        self._later(0.05, self._agent_starts)

    def _agent_starts(self) -> None:
        if self.report.agent_state == "Waiting":
            self.say(agent_state="Running")

    def _end(self, order: Mapping[str, Any]) -> None:
        self._is_ending = True
        delay = 0.1 if self._around.behaviour.agent_obeys else float(order["graceSeconds"])
        self._later(delay, self._agent_ends)

    def _agent_ends(self) -> None:
        self.agent_is_gone = True
        if self.report.agent_state != "Ended" and not self._around.behaviour.init_is_mute:
            self.say(agent_state="Ended", agent_exit_code=0)

    def go(self) -> None:
        """The pod is deleted: init ends the agent, and the keeper archives by itself if it may."""
        self._is_ending = True
        self._later(0.1, self._agent_ends)
        self._later(0.2, self._save)

    @property
    def is_saving(self) -> bool:
        """Whether a pod that goes still waits for its archive."""
        return self._may_save() and not (self._stored is not None and self._stored[1])

    def fill(self, level: str) -> None:
        """The workspace comes to a level of its size guard."""
        assert self.report.guard is not None
        self.say(guard=replace(self.report.guard, level=level))

    def _may_save(self) -> bool:
        grant = self._grants.get(True)
        return self.was_opened and grant is not None and grant.expires > self._around.clock().timestamp()

    def _save(self) -> None:
        if self.is_saving:
            self._begin(self._grants[True])
            self._later(0.5, self._save)

    def _keep(self, order: Mapping[str, Any]) -> None:
        grant = self._grant(order, Verb.ARCHIVE)
        assert (grant.slot, grant.epoch) == (self.slot, self.epoch), "a standing grant for another slot or epoch"
        assert (grant.final, grant.expires) == (order["final"], order["expires"]), "a grant that is not as it is told"
        self._grants[grant.final] = grant
        kind = "final" if grant.final else "checkpoint"
        self.say(kept=replace(self.report.kept or Kept(), **{kind: grant.expires}))

    def _guard(self, order: Mapping[str, Any]) -> None:
        level = self.report.guard.level if self.report.guard is not None else "Normal"
        self.say(guard=Guard(level, order["sizeBytes"], order["limitBytes"], order["intervalSeconds"]))
        if not self._has_clock:
            self._has_clock = True
            self._later(order["intervalSeconds"] or 60, self._look)

    def _look(self) -> None:
        """The interval is over: what changed is archived."""
        guard, grant = self.report.guard, self._grants.get(False)
        assert guard is not None
        may = grant is not None and grant.expires > self._around.clock().timestamp() and not self._is_ending
        is_new = self._stored is None or self._stored[0] != frozenset(self.files)
        if may and grant is not None and guard.interval_seconds and is_new and self.report.agent_state == "Running":
            self._begin(grant)
        self._later(guard.interval_seconds or 60, self._look)

    def _archive(self, order: Mapping[str, Any]) -> None:
        report, sequence = self.report, order["sequence"]
        if report.archive_state == "Stored" and report.archive_is_final and (report.archive_sequence or 0) >= sequence:
            return
        grant = self._grant(order, Verb.ARCHIVE)
        assert (grant.slot, grant.epoch) == (self.slot, self.epoch), "a grant for another slot or epoch"
        assert (grant.sequence, grant.final) == (sequence, order["final"]), "a grant for another archive"
        if report.marker_epoch is None or not report.opened:
            self._archive_failed(grant, "workspace_setup_failed")
            return
        self._begin(grant)

    def _begin(self, grant: Grant) -> None:
        """One at a time: an order waits for a checkpoint that runs."""
        if self._archives is not None:
            self._waits = grant if not self._archives.final else self._waits
            return
        self._archives = grant
        told: dict[str, Any] = {"archive_sequence": grant.sequence, "archive_is_final": grant.final}
        self.say(archive_state="Running", archive_code="", archive_message="", **told)
        self._later(0.3, lambda: self._archived(grant))

    def _archived(self, grant: Grant) -> None:
        self._archives = None
        behaviour = self._around.behaviour
        if behaviour.store_is_down or behaviour.archives_fail:
            behaviour.archives_fail = max(behaviour.archives_fail - 1, 0)
            self._archive_failed(grant, "snapshot_store_unavailable")
        else:
            self._transferred(grant)
        waits, self._waits = self._waits, None
        if waits is not None:
            self._begin(waits)

    def _transferred(self, grant: Grant) -> None:
        may_run = self.report.opened == self.report.challenge
        if grant.final and self.report.agent_state != "Ended" and may_run and not self.agent_is_gone:
            self._around.violations.append(f"epoch {self.epoch} was archived for good while its agent ran")
        content, place = frozenset(self.files), (grant.store, grant.slot)
        number = self._around.store.archive(place, grant.epoch, grant.sequence, content, final=grant.final)
        if self._around.behaviour.verdicts_lost:
            self._around.behaviour.verdicts_lost -= 1
            self.files.add("written after the archive")
            self._archive_failed(grant, "snapshot_store_unavailable")
            return
        self._stored = (content, grant.final)
        self.say(archive_sequence=number, archive_is_final=grant.final, archive_state="Stored")

    def _archive_failed(self, grant: Grant, code: str) -> None:
        told: dict[str, Any] = {"archive_sequence": grant.sequence, "archive_is_final": grant.final}
        self.say(archive_state="Failed", archive_code=code, archive_message="told by the fake", **told)

    def _grant(self, order: Mapping[str, Any], verb: Verb) -> Grant:
        now = self._around.clock().timestamp()
        return verify_grant(order["grant"], self._around.grant_keys, verb=verb, pod_uid=self.uid, now=now)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._around.agenda.later(seconds, lambda: None if self._is_gone else action())

    def _next_challenge(self) -> str:
        self._starts += 1
        return hashlib.sha256(f"{self.uid}/{self._starts}".encode()).hexdigest()[:32]
