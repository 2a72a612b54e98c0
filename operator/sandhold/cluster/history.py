"""What the store holds of a slot, asked of a mover and remembered until something of ours may have changed it.

An answer is kept together with a fingerprint of all that could have changed it (the session's epoch, its pods, the
archives that their keepers reported as stored); another fingerprint asks again. Troubles and unknowns are never kept.
Our own fence changes the head but not the content, and `fenced_epoch` stands beside the answer in the world, so a fence
asks nothing again.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from sandhold.cluster.door import Movers
from sandhold.cluster.memory import Recent
from sandhold.desired.world import SlotHistory, StoreTrouble, Unknown

Answer = SlotHistory | StoreTrouble | Unknown


@dataclass(frozen=True, slots=True)
class _Kept:
    fingerprint: Hashable
    history: SlotHistory


class Histories:
    """The answers, by store and slot."""

    def __init__(self, movers: Movers) -> None:
        self._movers = movers
        self._kept: Recent[tuple[str, str], _Kept] = Recent()

    async def of(self, store: str, slot: str, fingerprint: Hashable) -> Answer:
        """The history of a slot, as fresh as its fingerprint demands."""
        kept = self._kept.get((store, slot))
        if kept is not None and kept.fingerprint == fingerprint:
            return kept.history
        answer = await self._movers.history(store, slot)
        if isinstance(answer, SlotHistory):
            self._kept.put((store, slot), _Kept(fingerprint, answer))
        return answer

    def forget(self, store: str, slot: str) -> None:
        """Somebody else may have written: the next question goes to the store."""
        self._kept.pop((store, slot))
