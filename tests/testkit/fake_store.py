"""The object store as movers see it, in memory: manifests by slot and position, each with what its archive holds."""

import hashlib
from dataclasses import dataclass

from sandhold.desired.plan import Fence
from sandhold.desired.world import Manifest, SlotHistory, StoreTrouble
from testkit.clock import FakeClock
from testkit.object_store import stamp

Position = tuple[int, int]
Place = tuple[str, str]
"""Store and slot."""


@dataclass(frozen=True)
class Stored:
    """One manifest of the store and what its archive holds."""

    manifest: Manifest
    content: frozenset[str]


class FakeStore:
    """Manifests, never overwritten."""

    def __init__(self, clock: FakeClock) -> None:
        self.slots: dict[Place, dict[Position, Stored]] = {}
        self._clock = clock

    def history(self, place: Place) -> SlotHistory | StoreTrouble:
        """Head and content of a slot, as a mover computes them."""
        stored = self.slots.get(place, {})
        if not stored:
            return SlotHistory(None, None)
        head = stored[max(stored)].manifest
        if head.kind == "Archive":
            return SlotHistory(head, head)
        if head.parent is None:
            return SlotHistory(head, None)
        if head.parent not in stored:
            return StoreTrouble("manifest_missing", "the content that the fence names is not there", retryable=False)
        return SlotHistory(head, stored[head.parent].manifest)

    def fence(self, fence: Fence) -> StoreTrouble | None:
        """Write a fence, unless the slot says otherwise."""
        stored = self.slots.setdefault((fence.store, fence.slot), {})
        if any(epoch > fence.epoch for epoch, _ in stored):
            return StoreTrouble("stale_generation", "a newer epoch is in the store", retryable=False)
        there = stored.get((fence.epoch, 0))
        known = self.history((fence.store, fence.slot))
        if there is None and isinstance(known, SlotHistory) and known.head is not None:
            content = known.content and (known.content.epoch, known.content.sequence)
            if content != fence.parent:
                return StoreTrouble("stale_generation", "there is newer content", retryable=False)
        if there is not None and there.manifest.parent != fence.parent:
            return StoreTrouble("stale_generation", "this epoch is fenced with another parent", retryable=False)
        if there is None:
            self.put((fence.store, fence.slot), (fence.epoch, 0), frozenset(), parent=fence.parent)
        return None

    def has_fence(self, slot: str, epoch: int) -> bool:
        """Whether an epoch of a slot was fenced."""
        return any((epoch, 0) in stored for (_, each_slot), stored in self.slots.items() if each_slot == slot)

    def has_final_archive(self, slot: str, epoch: int) -> bool:
        """Whether the archive of a stop came from an epoch of a slot."""
        return any(each.manifest.final for each in self._archives(slot, epoch))

    def newest_content(self, slot: str, epoch: int) -> frozenset[str]:
        """What the newest archive of an epoch of a slot holds, checkpoints included; nothing where there is none."""
        newest = max(self._archives(slot, epoch), key=lambda each: each.manifest.sequence, default=None)
        return newest.content if newest is not None else frozenset()

    def archive(self, place: Place, epoch: int, lowest: int, content: frozenset[str], *, final: bool) -> int:
        """Store an archive under the number that a mover gives it; the same once more is the one that is there."""
        stored = self.slots.get(place, {})
        highest = max((sequence for each, sequence in stored if each == epoch), default=0)
        last = stored.get((epoch, highest))
        if highest and last is not None and (last.content, last.manifest.final) == (content, final):
            return highest
        number = max(lowest, highest + 1)
        self.put(place, (epoch, number), content, final=final)
        return number

    def _archives(self, slot: str, epoch: int) -> list[Stored]:
        return [
            each
            for (_, each_slot), stored in self.slots.items()
            if each_slot == slot
            for (each_epoch, sequence), each in stored.items()
            if each_epoch == epoch and sequence > 0
        ]

    def put(
        self,
        place: Place,
        position: Position,
        content: frozenset[str],
        *,
        final: bool = False,
        parent: Position | None = None,
    ) -> None:
        """Store a manifest."""
        epoch, sequence = position
        key = f"{place[1]}/{epoch:010}-{sequence:010}"
        manifest = Manifest(
            epoch=epoch,
            sequence=sequence,
            kind="Archive" if sequence else "Fence",
            final=final,
            key=key,
            digest=hashlib.sha256(f"{key}{sorted(content)}".encode()).hexdigest(),
            bytes=len(content),
            stored_bytes=len(content),
            files=len(content),
            created_at=stamp(self._clock()),
            parent=parent,
        )
        self.slots.setdefault(place, {})[position] = Stored(manifest, content)
