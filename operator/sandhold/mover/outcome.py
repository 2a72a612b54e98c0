"""What an error means to the peer: a code of `reasons.py`, a sentence, and whether to try again. Pure."""

from dataclasses import dataclass

from sandhold.errors import SandholdError
from sandhold.mover.grant import GrantError
from sandhold.mover.keepers import KeeperAbsentError
from sandhold.mover.wire import FrameError, Message, PeerGoneError
from sandhold.snapshots.catalogue import ManifestMissingError, OvertakenError, StaleGenerationError
from sandhold.snapshots.manifest import ManifestError
from sandhold.snapshots.records import RecordError, TooLargeError
from sandhold.snapshots.stores.protocol import ObjectMissingError

_LONGEST = 1024


class ProducerError(SandholdError):
    """What the keeper sent does not agree with what it said that it sent."""


class InvalidSnapshotError(SandholdError):
    """What the store has is not what the manifest says."""


class LayerGoneError(InvalidSnapshotError):
    """The store has the manifest and not the layer that it names."""


class SupersededError(SandholdError):
    """What was to be restored was pruned for something newer: look again at what is there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A failure, as the wire tells it."""

    code: str
    message: str
    retryable: bool

    def as_error(self) -> Message:
        """The fields that `failed` and an operator's error response share."""
        return {"code": self.code, "message": self.message, "retryable": self.retryable}


# The first that fits counts. What is not here is a store or its configuration, which a person mends while we try again.
_MEANINGS: tuple[tuple[tuple[type[Exception], ...], str, bool], ...] = (
    ((KeeperAbsentError,), "keeper_absent", True),
    ((GrantError,), "grant_refused", False),
    ((SupersededError,), "snapshot_store_unavailable", True),
    ((InvalidSnapshotError, ManifestError), "invalid_snapshot", False),
    ((ManifestMissingError,), "manifest_missing", False),
    ((StaleGenerationError,), "stale_generation", False),
    ((TooLargeError,), "snapshot_too_large", False),
    ((OvertakenError, ProducerError, RecordError, FrameError, PeerGoneError), "manifest_producer_failed", True),
    ((ObjectMissingError, SandholdError), "snapshot_store_unavailable", True),
)


def outcome_of(error: Exception) -> Outcome:
    """What to tell the peer. Errors that are not ours are told without their text: it may hold anything."""
    for kinds, code, retryable in _MEANINGS:
        if isinstance(error, kinds):
            return Outcome(code, str(error)[:_LONGEST], retryable)
    return Outcome("snapshot_store_unavailable", "the mover failed; its log says how", retryable=True)
