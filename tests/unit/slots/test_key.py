import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandhold.slots.key import HASH_LENGTH, slot_key

PARTS = {"installation": "i", "namespace": "n", "sandbox": "s", "session": "o", "tenant": "t"}


def test_the_key_is_what_it_always_was() -> None:
    # Stored workspaces are found by it: when this fails, every archive in every store is lost from sight.
    key = slot_key(installation="demo", namespace="default", sandbox="python", session="first")
    assert key == "f222690fbf0f9bff4628f1a49df9615c"


@pytest.mark.parametrize("part", list(PARTS))
def test_every_part_counts(part: str) -> None:
    assert slot_key(**PARTS) != slot_key(**{**PARTS, part: "other"})


@given(st.lists(st.text(max_size=4), min_size=5, max_size=5), st.lists(st.text(max_size=4), min_size=5, max_size=5))
def test_keys_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    first, second = (slot_key(**dict(zip(PARTS, parts, strict=True))) for parts in (one, other))
    assert (first == second) == (one == other)
    assert len(first) == HASH_LENGTH
    assert int(first, 16) >= 0


def test_parts_do_not_run_into_each_other() -> None:
    assert slot_key(**{**PARTS, "namespace": "ab", "sandbox": "c"}) != slot_key(
        **{**PARTS, "namespace": "a", "sandbox": "bc"}
    )
