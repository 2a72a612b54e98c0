"""From a key to its world: one gather of all that is known, frozen before anything is decided.

Reads come from the cache, but for what no watch delivers: the store's history (asked of a mover), the namespace of an
object that is being deleted, and names of ours that something else may have taken. All of those are asked at once.
It decides nothing, and changes nothing but the cache and the notes of what it asked.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sandhold import names
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.backends.model import Backends
from sandhold.cluster.cache import Cache
from sandhold.cluster.door import Door, Movers
from sandhold.cluster.history import Fingerprints, Histories
from sandhold.cluster.installation import InstallationFacts
from sandhold.cluster.kinds import ACCOUNT, BUDGET, POD, POLICY, RESOURCES, SANDBOX, SESSION, SNAPSHOT, described
from sandhold.cluster.memory import Ending, Memory
from sandhold.cluster.ours import is_ours
from sandhold.cluster.reading import read_sandbox, read_session
from sandhold.desired.lifecycle import stays_at_rest
from sandhold.desired.plan import Reference
from sandhold.desired.situation import slot_of
from sandhold.desired.world import (
    ABSENT,
    Absent,
    Keeper,
    KubeObject,
    Observed,
    Present,
    SandboxWorld,
    SessionWorld,
    SlotHistory,
    StoreTrouble,
    Unknown,
)
from sandhold.errors import InvalidError, NotFoundError, SandholdError
from sandhold.reasons import RefusalCode

ENDING_SECONDS = 2.0
Pods = Observed[tuple[KubeObject, ...]]


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session's world, and the raw object that it is about: what a write must be tested against."""

    subject: KubeObject
    world: SessionWorld


@dataclass(frozen=True, slots=True)
class SandboxView:
    """An AgentSandbox's world, and the raw object that it is about."""

    subject: KubeObject
    world: SandboxWorld


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked about a slot, and what an earlier answer must agree with."""

    slot: str
    fingerprint: Hashable
    has_archive: bool
    """Whether status or a SandboxSnapshot names one, or this run makes some."""


class Observer:
    """Gathers worlds."""

    def __init__(  # noqa: PLR0913 - everything that a world is gathered from
        self,
        *,
        door: Door,
        movers: Movers,
        cache: Cache,
        facts: InstallationFacts,
        memory: Memory,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door = door
        self._movers = movers
        self._cache = cache
        self._facts = facts
        self._memory = memory
        self._clock = clock
        self._monotonic = monotonic
        self.histories = Histories(movers)
        self._fingerprints = Fingerprints()

    async def session(self, namespace: str, name: str) -> SessionView | None:
        """The world of a SandboxSession; None when it is not there (any more)."""
        raw = self._cache.get(SESSION, namespace, name)
        if raw is None:
            return None
        session, invalid = read_session(raw)
        metadata = session.metadata
        installation = self._facts.current()
        sandbox = self._sandbox(namespace, session.spec.sandbox_ref.name)
        slot = slot_of(session, installation.id)
        pods = self._listed(POD, "session", f"{namespace}/{metadata.uid}")
        keepers = self._keepers(pods)
        snapshots = self._snapshots(session, slot)
        has_archive = bool(session.status.snapshot or session.status.archives_on_stop) or (
            isinstance(snapshots, Present) and bool(snapshots.value)
        )
        question = _Question(slot, self._fingerprints.of(session, keepers, pods), has_archive=has_archive)
        rests = pods == Present(()) and stays_at_rest(session)
        history, squatter, is_ending = await asyncio.gather(
            self._history(sandbox, installation.backends, None if rests else question),
            self._pod_squatter(session, installation.id),
            self._is_ending(namespace, is_deleting=metadata.deletion_timestamp is not None),
        )
        world = SessionWorld(
            now=self._clock(),
            installation=installation,
            session=session,
            sandbox=sandbox,
            policy=self._made_for(POLICY, sandbox),
            service_account=self._made_for(ACCOUNT, sandbox),
            pods=pods,
            squatter=squatter,
            keepers=keepers,
            history=history,
            snapshots=snapshots,
            namespace_terminating=is_ending,
            fenced_epoch=self._memory.fenced.get(metadata.uid),
            posted_epoch=self._memory.posted.get(metadata.uid),
            create_refused=self._memory.refused.get(metadata.uid),
            record_refused=self._memory.unrecorded.get(metadata.uid),
            invalid=invalid,
        )
        return SessionView(raw, world)

    async def sandbox(self, namespace: str, name: str) -> SandboxView | None:
        """The world of an AgentSandbox; None when it is not there (any more)."""
        raw = self._cache.get(SANDBOX, namespace, name)
        if raw is None:
            return None
        sandbox = read_sandbox(raw)
        if isinstance(sandbox, str):
            raise InvalidError(sandbox)
        installation = self._facts.current()
        policy, account, budget, is_ending = await asyncio.gather(
            self._under_our_name(POLICY, sandbox),
            self._under_our_name(ACCOUNT, sandbox),
            self._under_our_name(BUDGET, sandbox),
            self._is_ending(namespace, is_deleting=sandbox.metadata.deletion_timestamp is not None),
        )
        found = [each.value for each in (policy, account, budget) if isinstance(each, Present)]
        foreign = tuple(each for each in found if not is_ours(each, installation.id))
        world = SandboxWorld(
            now=self._clock(),
            installation=installation,
            sandbox=sandbox,
            policy=_but_foreign(policy, foreign),
            service_account=_but_foreign(account, foreign),
            disruption_budget=_but_foreign(budget, foreign),
            sessions=self._listed(SESSION, "sandbox", f"{namespace}/{name}"),
            pods=self._listed(POD, "sandbox", f"{namespace}/{names.label_value(name)}"),
            namespace_terminating=is_ending,
            squatters=foreign,
        )
        return SandboxView(raw, world)

    def _sandbox(self, namespace: str, name: str) -> Observed[AgentSandbox]:
        raw = self._cache.get(SANDBOX, namespace, name)
        if raw is None:
            return ABSENT if self._cache.is_listed(SANDBOX) else Unknown(_not_listed(SANDBOX))
        sandbox = read_sandbox(raw)
        return Unknown(sandbox) if isinstance(sandbox, str) else Present(sandbox)

    def _made_for(self, kind: str, sandbox: Observed[AgentSandbox]) -> Observed[KubeObject]:
        """The policy or account of an AgentSandbox, which its own reconcile makes."""
        if not isinstance(sandbox, Present):
            return sandbox
        metadata = sandbox.value.metadata
        known = self._cache.get(kind, metadata.namespace, names.sandbox_object_name(metadata.name, metadata.uid))
        if known is not None:
            return Present(known)
        return ABSENT if self._cache.is_listed(kind) else Unknown(_not_listed(kind))

    def _listed(self, kind: str, index: str, value: str) -> Observed[tuple[KubeObject, ...]]:
        if not self._cache.is_listed(kind):
            return Unknown(_not_listed(kind))
        return Present(self._cache.select(kind, index, value))

    def _keepers(self, pods: Pods) -> Mapping[str, Keeper]:
        known = self._movers.keepers()
        uids = [pod["metadata"]["uid"] for pod in pods.value] if isinstance(pods, Present) else []
        return {uid: known[uid] for uid in uids if uid in known}

    def _snapshots(self, session: SandboxSession, slot: str) -> Observed[tuple[KubeObject, ...]]:
        """Those of this slot, and whatever has the name of this epoch's entry or of the archive that status names.

        Another AgentSandbox may have had a session of this name, in another slot.
        """
        metadata = session.metadata
        found = self._listed(SNAPSHOT, "session", f"{metadata.namespace}/{metadata.name}")
        if not isinstance(found, Present):
            return found
        ours = tuple(each for each in found.value if f"-{slot[:10]}-" in each["metadata"]["name"])
        status = session.status
        epochs = {place.epoch for place in (status.slot, status.snapshot) if place is not None} or {0}
        wanted = (names.snapshot_name(metadata.name, slot, epoch) for epoch in sorted(epochs))
        named = (self._cache.get(SNAPSHOT, metadata.namespace, name) for name in wanted)
        return Present((*ours, *(each for each in named if each is not None and each not in ours)))

    async def _history(
        self, sandbox: Observed[AgentSandbox], backends: Backends, question: "_Question | None"
    ) -> Observed[SlotHistory] | StoreTrouble:
        """Asked for whoever keeps archives or has one: a start that nobody will archive still begins with the last.

        Not for sessions at rest: thousands of them are looked at when an operator begins.
        """
        if question is None:
            return Unknown("not asked: the session is at rest")
        if not isinstance(sandbox, Present):
            return Unknown("the AgentSandbox is not there, and so the store is not known")
        snapshot = sandbox.value.spec.snapshot
        if not snapshot.on_stop and not question.has_archive:
            return ABSENT
        store = backends.store_for(snapshot.store)
        if store is None or store not in backends.stores:
            message = f"store {store or ''} of AgentSandbox {sandbox.value.metadata.name} is not configured"
            return StoreTrouble(RefusalCode.SNAPSHOT_STORE_UNAVAILABLE, message.replace("  ", " "), retryable=True)
        answer = await self.histories.of(store, question.slot, question.fingerprint)
        return Present(answer) if isinstance(answer, SlotHistory) else answer

    async def _pod_squatter(self, session: SandboxSession, installation: str) -> Observed[KubeObject]:
        """Only a name that a create found taken is looked at: every other pod of ours is met by its label."""
        metadata, slot = session.metadata, session.status.slot
        if slot is None:
            return ABSENT
        name = names.pod_name(metadata.name, metadata.uid, slot.epoch)
        reference = Reference("v1", POD, metadata.namespace, name)
        if self._memory.suspects.get(reference) is None:
            return ABSENT
        found = await self._look(reference)
        if isinstance(found, Absent) or (
            isinstance(found, Present) and is_ours(found.value, installation, metadata.uid)
        ):
            self._memory.suspects.pop(reference)
            return ABSENT
        return found

    async def _under_our_name(self, kind: str, sandbox: AgentSandbox) -> Observed[KubeObject]:
        """What has the name of the sandbox's policy or account, whoever made it.

        An apply would take a foreign object over without a word, so what the watch does not show is read.
        """
        metadata = sandbox.metadata
        name = names.sandbox_object_name(metadata.name, metadata.uid)
        known = self._cache.get(kind, metadata.namespace, name)
        if known is not None:
            return Present(known)
        return await self._look(Reference(RESOURCES[kind].api_version, kind, metadata.namespace, name))

    async def _look(self, reference: Reference) -> Observed[KubeObject]:
        try:
            return Present(await self._door.get(reference))
        except NotFoundError:
            return ABSENT
        except SandholdError:
            return Unknown(f"{described(reference)} could not be read")

    async def _is_ending(self, namespace: str, *, is_deleting: bool) -> bool:
        """Whether the namespace is being deleted; asked only when something suggests it. Unknown counts as no.

        An end is for good. A no is believed for a moment: a deletion is reconciled many times a second.
        """
        noted = self._memory.ending.get(namespace)
        is_recent = noted is not None and self._monotonic() - noted.at < ENDING_SECONDS
        if noted is not None and is_recent and noted.is_confirmed is not None:
            return noted.is_confirmed
        if not is_deleting and not is_recent:
            return False
        found = await self._look(Reference("v1", "Namespace", "", namespace))
        is_ending = isinstance(found, Present) and "deletionTimestamp" in found.value["metadata"]
        if not isinstance(found, Unknown):
            self._memory.ending.put(namespace, Ending(self._monotonic(), is_confirmed=is_ending))
        return is_ending


def _but_foreign(found: Observed[KubeObject], foreign: tuple[KubeObject, ...]) -> Observed[KubeObject]:
    return ABSENT if isinstance(found, Present) and any(found.value is each for each in foreign) else found


def _not_listed(kind: str) -> str:
    return f"{kind} objects were not listed yet"
