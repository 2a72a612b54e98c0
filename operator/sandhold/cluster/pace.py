"""How often one pod may wake its session: at once in the usual course of a start, and slowly when it will not be quiet.

An agent can make its keeper report something new every few milliseconds; a pass for each would be a way to keep the
operator from everybody else. Nothing is dropped: a report that comes too soon is told later, together with the next.
"""

from collections.abc import Callable
from dataclasses import dataclass

BURST = 40.0
PER_SECOND = 4.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    since: float


class Pace:
    """One bucket of tokens a key, kept while the key is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, key: str) -> float:
        """Take a token; the seconds until it is there, 0 when it was."""
        now = self._clock()
        bucket = self._buckets.setdefault(key, _Bucket(BURST, now))
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.since) * PER_SECOND) - 1
        bucket.since = now
        return max(-bucket.tokens / PER_SECOND, 0.0)

    def forget(self, key: str) -> None:
        """The key is gone."""
        self._buckets.pop(key, None)
