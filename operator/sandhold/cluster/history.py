"""What the store holds of a slot, asked of a mover and remembered until something of ours may have changed it.

An answer is kept together with a fingerprint of all that could have changed it (the session's epoch, its pods, the
archives that their keepers reported as stored); another fingerprint asks again. Troubles and unknowns are never kept.
Our own fence changes the head but not the content, and `fenced_epoch` stands beside the answer in the world, so a fence
asks nothing again.

A store that does not answer must not hold up the passes that do not need it: a pass waits for a moment only, and the
question goes on without it, so that a later pass finds the answer.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

from sandhold.cluster.door import Movers
from sandhold.cluster.memory import Recent
from sandhold.desired.world import SlotHistory, StoreTrouble, Unknown

Answer = SlotHistory | StoreTrouble | Unknown
PATIENCE_SECONDS = 2.0
MOST_QUESTIONS = 64
SLOW = Unknown("the store has not answered yet")


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

    async def of(self, store: str, slot: str, fingerprint: Hashable) -> Answer:
        """The history of a slot, as fresh as its fingerprint demands."""
        kept = self._kept.get((store, slot))
        if kept is not None and kept.fingerprint == fingerprint:
            return kept.history
        key = (store, slot, fingerprint)
        question = self._open.get(key)
        patience = 0.0 if question is not None else self._patience
        if question is None:
            if len(self._open) >= MOST_QUESTIONS:
                return SLOW
            question = asyncio.create_task(self._ask(store, slot, fingerprint), name=f"history {slot}")
            self._open[key] = question
        await asyncio.wait({question}, timeout=patience)
        return question.result() if question.done() else SLOW

    def forget(self, store: str, slot: str) -> None:
        """Somebody else may have written: the next question goes to the store."""
        self._kept.pop((store, slot))

    async def _ask(self, store: str, slot: str, fingerprint: Hashable) -> Answer:
        try:
            answer = await self._movers.history(store, slot)
        finally:
            del self._open[store, slot, fingerprint]
        if isinstance(answer, SlotHistory):
            self._kept.put((store, slot), _Kept(fingerprint, answer))
        return answer
