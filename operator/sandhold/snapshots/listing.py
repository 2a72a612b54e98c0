"""What a store lists of one slot, and what follows from that alone: the head, the next number, what may be pruned.

Pure. A listing says which manifests there are and when the store got them, never what they hold: whoever acts on one
reads and verifies it first.
"""

from collections.abc import Iterable
from datetime import timedelta

from sandhold.snapshots.manifest import Generation, Place
from sandhold.snapshots.stores.protocol import ListedObject

NEWEST_KEPT = 2
"""Archives of an epoch that are always kept: the newest, and the one before it, which somebody may be reading."""
YOUNGEST_PRUNED = timedelta(seconds=60)


class Listing:
    """The manifests of a slot at one moment. What has no manifest's name (layers above all) does not count."""

    def __init__(self, place: Place, objects: Iterable[ListedObject]) -> None:
        named = ((place.generation_of(found.key), found) for found in objects)
        self._found = {generation: found for generation, found in named if generation is not None}

    def __contains__(self, generation: Generation) -> bool:
        return generation in self._found

    def etag(self, generation: Generation) -> str | None:
        """The ETag under which a manifest is listed."""
        found = self._found.get(generation)
        return None if found is None else found.etag

    @property
    def head(self) -> Generation | None:
        """The highest manifest."""
        return max(self._found, default=None)

    def archives(self, epoch: int) -> list[Generation]:
        """Everything of an epoch but its fence, in order."""
        return sorted(found for found in self._found if found.epoch == epoch and not found.is_fence)

    def successor(self, generation: Generation) -> Generation | None:
        """The newest archive of the same epoch that came after this one: a later state of the same workspace."""
        newest = self.archives(generation.epoch)[-1:]
        return newest[0] if newest and newest[0] > generation else None

    def prunable(self, stored: Generation) -> list[Generation]:
        """Archives that the one just stored has made superfluous, oldest first, if they turn out to be checkpoints.

        Nothing unless its epoch is the highest that is listed: what a later epoch was fenced over is never touched.
        Ages are differences of the store's own times, so no clock but the store's counts.
        """
        head, latest = self.head, self._found.get(stored)
        if head is None or latest is None or head.epoch != stored.epoch:
            return []
        return [
            found
            for found in self.archives(stored.epoch)[:-NEWEST_KEPT]
            if latest.modified - self._found[found].modified > YOUNGEST_PRUNED
        ]
