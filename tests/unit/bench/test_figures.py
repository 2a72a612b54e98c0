"""Figures out of samples: nothing is interpolated, and a ratio says whether the target was reached."""

import pytest

from bench import figures


def test_a_percentile_is_a_sample() -> None:
    ordered = [float(number) for number in range(1, 13)]
    assert figures.percentile(ordered, 0.5) == 6
    assert figures.percentile(ordered, 0.9) == 11
    assert figures.percentile(ordered, 0.99) == 12
    assert figures.percentile([7.0], 0.01) == 7


def test_a_summary_keeps_the_order_of_its_samples() -> None:
    found = figures.summary([30.0, 10.0, 20.0])
    assert (found["n"], found["p50"], found["min"], found["max"]) == (3, 20, 10, 30)
    assert found["samples"] == [30, 10, 20]


def test_the_target_is_reached_by_the_ratio_of_medians() -> None:
    assert figures.compared([18.0, 18.0], [10.0, 10.0], 1.8)["reached"]
    assert not figures.compared([18.1, 18.1], [10.0, 10.0], 1.8)["reached"]


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        figures.compared([1.0, 2.0], [1.0], 2)
