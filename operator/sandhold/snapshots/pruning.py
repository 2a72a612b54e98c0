"""Checkpoints that newer ones have made superfluous, taken out of the store: the manifest first, then its layer.

Kept for certain: the newest two archives of an epoch, every final one, whatever is younger than a minute or not the
same pod's, and everything in an epoch that is not the highest. What cannot be verified is left as it is. Movers may
prune side by side: all that they do is to delete, and what one may delete only becomes older. Blocking.

Not done here: retention (a person's rule, for finals too) and layers that no manifest ever named.
"""

import logging
from dataclasses import dataclass

from sandhold.errors import SandholdError
from sandhold.snapshots.catalogue import Catalogue, ManifestMissingError
from sandhold.snapshots.listing import Listing
from sandhold.snapshots.manifest import Generation, Header, Kind

MOST_AT_ONCE = 16
"""What more there is waits for the next checkpoint."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pruned:
    """What one pass came to."""

    manifests: int = 0
    layers_kept: int = 0
    """Layers that stay although their manifest went: another one names them, or may."""
    failures: int = 0


def prune(catalogue: Catalogue, stored: Header) -> Pruned:
    """Prune after this checkpoint. Does not raise for a store that fails: a later checkpoint prunes what is left."""
    pruned = Pruned()
    try:
        listed = catalogue.listed()
        for generation in listed.prunable(stored.generation):
            header = _header(catalogue, generation, listed)
            if header is None or not may_be_pruned(header, stored, _fence(catalogue, listed, stored)):
                continue
            _others(catalogue, header, listed)
            # Looked at anew when all that is slow has been read: a fence may have been put meanwhile.
            listed = catalogue.listed()
            if generation in listed.prunable(stored.generation):
                _remove(catalogue, listed, header, pruned)
            if pruned.manifests == MOST_AT_ONCE:
                break
    except SandholdError as error:
        pruned.failures += 1
        _log.warning("checkpoints of slot %s are left for later: %s", stored.slot, error)
    return pruned


def may_be_pruned(header: Header, stored: Header, fence: Header | None) -> bool:
    """Whether an archive that its place makes superfluous is the same pod's checkpoint, and no fence's content."""
    return (
        header.kind is Kind.ARCHIVE
        and not header.final
        and header.pod_uid == stored.pod_uid
        and (fence is None or fence.parent != header.generation)
    )


def _remove(catalogue: Catalogue, listed: Listing, header: Header, pruned: Pruned) -> None:
    generation = header.generation
    shared = {layer.key for other in _others(catalogue, header, listed) for layer in other.layers}
    catalogue.remove(generation)
    pruned.manifests += 1
    for layer in header.layers:
        if layer.key in shared:
            pruned.layers_kept += 1
        else:
            catalogue.remove_layer(layer.key)
    _log.info("checkpoint %s of slot %s was pruned", generation, header.slot)


def _others(catalogue: Catalogue, header: Header, listed: Listing) -> list[Header]:
    """Everybody who may name a layer of this one's. Layers belong to the epoch in which they were stored."""
    others = [one for one in listed.archives(header.generation.epoch) if one != header.generation]
    return [found for one in others if (found := _header(catalogue, one, listed)) is not None]


def _fence(catalogue: Catalogue, listed: Listing, stored: Header) -> Header | None:
    fence = Generation(stored.generation.epoch, 0)
    return _header(catalogue, fence, listed) if fence in listed else None


def _header(catalogue: Catalogue, generation: Generation, listed: Listing) -> Header | None:
    """A verified header; None for one that somebody else has removed since the listing."""
    try:
        return catalogue.summary(generation, listed).header
    except ManifestMissingError:
        return None
