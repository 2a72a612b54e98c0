from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandhold.api.quantity import is_quantity, quantity_bytes, quantity_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("2G", 2_000_000_000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e-3", Fraction(1, 1000)),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_a_quantity_has_exactly_its_value(text: str, value: Fraction) -> None:
    assert quantity_value(text) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "-1", "+1", "1gi", "Gi", ".", "1e", "1e10000", "1.5.5", "\u0661", "1\n", "0x10"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    assert not is_quantity(text)
    with pytest.raises(ValueError, match="not a quantity"):
        quantity_value(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "Ki", "M", "Mi", "G", "Gi"]))
def test_bytes_are_whole_and_never_too_few(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert 0 <= quantity_bytes(text) - quantity_value(text) < 1
