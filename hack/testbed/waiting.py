"""Waiting for a condition, never for a time: polls until it holds, and says what was missing when it never does."""

import time
from collections.abc import Callable

from testbed.failure import TestbedError


def until(claim: str, holds: Callable[[], bool], *, seconds: float, every: float = 0.05) -> None:
    """Return as soon as `holds()` is true; raise, naming the claim, when it is not within the bound."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TestbedError(f"gave up after {seconds:.0f} s: {claim}")
        time.sleep(every)
