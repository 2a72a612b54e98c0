"""What the store holds of a slot, asked of a mover and remembered until something of ours may have changed it.

An answer is kept together with a fingerprint of all that could have changed it (the session's epoch, its pods, the
archives that their keepers reported as stored); another fingerprint asks again. A keeper that leaves may never be heard
to say what it stored last, so its silence and the end of its pod ask, too. Troubles and unknowns are never kept.
Our own fence changes the head but not the content, and `fenced_epoch` stands beside the answer in the world, so a fence
asks nothing again.

A store that does not answer must not hold up the passes that do not need it: a pass waits for a moment only, and the
question goes on without it, so that a later pass finds the answer. Once a wait was in vain, nobody waits for that store
until it answers in time, and open questions are bounded for each store by itself.
"""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from sandhold.api.session import SandboxSession
from sandhold.cluster.door import Movers
from sandhold.cluster.memory import Recent
from sandhold.desired.seen import is_dead
from sandhold.desired.world import Keeper, KubeObject, Observed, Present, SlotHistory, StoreTrouble, Unknown

Pods = Observed[tuple[KubeObject, ...]]
Answer = SlotHistory | StoreTrouble | Unknown
PATIENCE_SECONDS = 2.0
MOST_QUESTIONS = 64
"""Open at once, of each store."""
SLOW = Unknown("the store has not answered yet")


class Fingerprints:
    """Of all of ours that may have changed what the store holds of a session's slot."""

    def __init__(self) -> None:
        self._ended: Recent[str, Hashable] = Recent()

    def of(self, session: SandboxSession, keepers: Mapping[str, Keeper], pods: Pods) -> Hashable:
        """The fingerprint of now."""
        epoch = session.status.slot.epoch if session.status.slot is not None else None
        there = tuple((pod["metadata"]["uid"], is_dead(pod)) for pod in pods.value) if isinstance(pods, Present) else ()
        told = tuple((keeper.connected, self._ended_archive(uid, keeper)) for uid, keeper in sorted(keepers.items()))
        return epoch, there, told

    def _ended_archive(self, uid: str, keeper: Keeper) -> Hashable:
        """The last archive of a keeper that came to an end; one that runs has changed nothing yet.

        A failed one may be there all the same: its keeper never heard the verdict. So each failure asks anew.
        """
        report = keeper.report
        if report is None or report.archive_state not in ("Stored", "Failed"):
            return self._ended.get(uid)
        is_stored = report.archive_state == "Stored"
        told = (report.archive_sequence, report.archive_is_final) if is_stored else keeper.reported_at
        ended = (uid, report.archive_state, told)
        self._ended.put(uid, ended)
        return ended


@dataclass(frozen=True, slots=True)
class _Kept:
    fingerprint: Hashable
    history: SlotHistory


class Histories:
    """The answers, by store and slot."""

    def __init__(self, movers: Movers, patience: float = PATIENCE_SECONDS) -> None:
        self._movers = movers
        self._patience = patience
        self._kept: Recent[tuple[str, str], _Kept] = Recent()
        self._open: dict[tuple[str, str, Hashable], asyncio.Task[Answer]] = {}
        self._slow: set[str] = set()

    async def of(self, store: str, slot: str, fingerprint: Hashable) -> Answer:
        """The history of a slot, as fresh as its fingerprint demands."""
        kept = self._kept.get((store, slot))
        if kept is not None and kept.fingerprint == fingerprint:
            return kept.history
        key = (store, slot, fingerprint)
        question = self._open.get(key)
        patience = 0.0 if question is not None or store in self._slow else self._patience
        if question is None:
            if sum(asked == store for asked, _, _ in self._open) >= MOST_QUESTIONS:
                return SLOW
            question = asyncio.create_task(self._ask(store, slot, fingerprint), name=f"history {slot}")
            self._open[key] = question
        await asyncio.wait({question}, timeout=patience)
        if question.done():
            return question.result()
        if patience:
            self._slow.add(store)
        return SLOW

    def forget(self, store: str, slot: str) -> None:
        """Somebody else may have written: the next question goes to the store."""
        self._kept.pop((store, slot))

    async def _ask(self, store: str, slot: str, fingerprint: Hashable) -> Answer:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            answer = await self._movers.history(store, slot)
        finally:
            del self._open[store, slot, fingerprint]
        if clock() - began <= self._patience:
            self._slow.discard(store)
        if isinstance(answer, SlotHistory):
            self._kept.put((store, slot), _Kept(fingerprint, answer))
        return answer
