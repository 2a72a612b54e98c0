"""What an error means to a peer."""

import pytest

from sandhold.mover.grant import GrantError
from sandhold.mover.keepers import KeeperAbsentError
from sandhold.mover.outcome import InvalidSnapshotError, ProducerError, outcome_of
from sandhold.mover.wire import FrameError, PeerGoneError
from sandhold.reasons import RefusalCode
from sandhold.snapshots.catalogue import ManifestMissingError, StaleGenerationError
from sandhold.snapshots.mac import MacKeysError
from sandhold.snapshots.manifest import ManifestError
from sandhold.snapshots.records import RecordError, TooLargeError
from sandhold.snapshots.stores.protocol import ObjectMissingError, StoreUnavailableError


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (KeeperAbsentError("x"), "keeper_absent", True),
        (GrantError("x"), "grant_refused", False),
        (InvalidSnapshotError("x"), "invalid_snapshot", False),
        (ManifestError("x"), "invalid_snapshot", False),
        (ManifestMissingError("x"), "manifest_missing", False),
        (StaleGenerationError("x"), "stale_generation", False),
        (TooLargeError("x"), "snapshot_too_large", False),
        (ProducerError("x"), "manifest_producer_failed", True),
        (RecordError("x"), "manifest_producer_failed", True),
        (FrameError("x"), "manifest_producer_failed", True),
        (PeerGoneError("x"), "manifest_producer_failed", True),
        (StoreUnavailableError("x"), "snapshot_store_unavailable", True),
        (ObjectMissingError("x"), "snapshot_store_unavailable", True),
        (MacKeysError("x"), "snapshot_store_unavailable", True),
    ],
)
def test_every_error_of_ours_has_its_code(error: Exception, code: str, retryable: bool) -> None:  # noqa: FBT001
    outcome = outcome_of(error)
    assert (outcome.code, outcome.message, outcome.retryable) == (code, "x", retryable)
    assert code in {*RefusalCode, "keeper_absent", "grant_refused"}


def test_an_error_of_a_librarys_is_told_without_its_text() -> None:
    outcome = outcome_of(RuntimeError("secret"))
    assert (outcome.code, outcome.retryable) == ("snapshot_store_unavailable", True)
    assert "secret" not in outcome.message
