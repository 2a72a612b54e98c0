"""Numbers out of samples. Pure: the same samples always give the same figures."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

Figures = dict[str, Any]


def summary(samples: Sequence[float]) -> Figures:
    """Median, tail and spread of samples in milliseconds, with the samples themselves."""
    ordered = sorted(samples)
    return {
        "n": len(ordered),
        "p50": round(statistics.median(ordered), 1),
        "p90": round(percentile(ordered, 0.9), 1),
        "p99": round(percentile(ordered, 0.99), 1),
        "min": round(ordered[0], 1),
        "max": round(ordered[-1], 1),
        "samples": [round(sample, 1) for sample in samples],
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank: a value that was really measured, also of few samples."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def compared(ours: Sequence[float], bare: Sequence[float], target: float) -> Figures:
    """Ours beside the bare one: the ratio of medians, and the ratio pair by pair, which drift of the machine spares."""
    pairs = sorted(one / other for one, other in zip(ours, bare, strict=True))
    ratio = statistics.median(ours) / statistics.median(bare)
    return {
        "session": summary(ours),
        "barePod": summary(bare),
        "ratioOfMedians": round(ratio, 2),
        "medianOfPairedRatios": round(statistics.median(pairs), 2),
        "target": target,
        "reached": ratio <= target,
    }
