"""What follows from a listing alone: the head, the newest of an epoch, and what newer checkpoints make superfluous."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sandhold.snapshots.listing import Listing
from sandhold.snapshots.manifest import Generation, Place
from sandhold.snapshots.stores.protocol import ListedObject

PLACE = Place("pre/", "inst", "slot")
START = datetime(2026, 1, 1, tzinfo=UTC)


def listed(*generations: tuple[int, int], every: float = 100) -> Listing:
    """These manifests, stored one after the other in the order of their numbers."""
    return Listing(
        PLACE,
        [
            ListedObject(
                PLACE.manifest_key(Generation(*one)), f"etag-{one}", 1, START + timedelta(seconds=every * index)
            )
            for index, one in enumerate(sorted(generations))
        ],
    )


def test_the_head_is_the_highest_of_what_is_named_like_a_manifest() -> None:
    names = ["0000000001-0000000009", "0000000002-0000000000", "layers/0000000009-0000000000", "x", "0000000003-1"]
    keys = [f"pre/inst/slot/{name}" for name in names] + ["pre/inst/slot2/0000000009-0000000000"]
    assert Listing(PLACE, [ListedObject(key, "e", 1, START) for key in keys]).head == Generation(2, 0)
    assert listed().head is None


def test_the_newest_archive_of_an_epoch_is_no_fence_and_of_no_other_epoch() -> None:
    found = listed((1, 7), (2, 0), (2, 1), (2, 12), (3, 0), (3, 40))
    assert found.archives(2) == [Generation(2, 1), Generation(2, 12)]
    assert listed((2, 0)).archives(2) == []


def test_a_successor_is_a_later_archive_of_the_same_epoch() -> None:
    found = listed((1, 1), (1, 4), (1, 9), (2, 0), (2, 3))
    assert found.successor(Generation(1, 2)) == Generation(1, 9)
    assert found.successor(Generation(1, 9)) is None
    assert found.successor(Generation(3, 1)) is None


def test_all_but_the_newest_two_of_the_epoch_are_superfluous() -> None:
    found = listed((1, 1), (2, 0), (2, 1), (2, 2), (2, 5), (2, 6))
    assert found.prunable(Generation(2, 6)) == [Generation(2, 1), Generation(2, 2)]


def test_what_is_younger_than_a_minute_stays() -> None:
    found = listed((1, 1), (1, 2), (1, 3), (1, 4), every=20)
    assert found.prunable(Generation(1, 4)) == []
    assert listed((1, 1), (1, 2), (1, 3), (1, 4), every=20.5).prunable(Generation(1, 4)) == [Generation(1, 1)]


def test_ages_end_when_the_checkpoint_was_stored_not_when_somebody_looks() -> None:
    """A pass that comes late counts what was stored since among the newest, and nothing as older for it."""
    found = listed((1, 1), (1, 2), (1, 3), (1, 4), every=50)
    assert found.prunable(Generation(1, 2)) == []


def test_nothing_is_superfluous_below_a_fence() -> None:
    assert listed((1, 1), (1, 2), (1, 3), (2, 0)).prunable(Generation(1, 3)) == []


def test_a_checkpoint_that_is_not_listed_makes_nothing_superfluous() -> None:
    assert listed((1, 1), (1, 2), (1, 3)).prunable(Generation(1, 4)) == []


@given(
    st.sets(st.tuples(st.integers(1, 3), st.integers(0, 6)), min_size=1),
    st.tuples(st.integers(1, 3), st.integers(0, 6)),
    st.sampled_from([1, 30, 61, 1000]),
)
def test_laws_of_what_is_superfluous(of: set[tuple[int, int]], stored: tuple[int, int], every: float) -> None:
    found, latest = listed(*of, every=every), Generation(*stored)
    gone = found.prunable(latest)
    assert len(set(gone)) == len(gone)
    for one in gone:
        assert one in found
        assert one.epoch == latest.epoch == max(epoch for epoch, _ in of)
        assert not one.is_fence
        assert one not in found.archives(one.epoch)[-2:]
