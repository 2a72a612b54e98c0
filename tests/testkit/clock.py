"""A clock that only a test moves, and what is to happen when it has moved."""

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class FakeClock:
    """Call it for the time."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """The time."""
        return self.now

    def monotonic(self) -> float:
        """The same as seconds since the start."""
        return (self.now - START).total_seconds()

    def move_to(self, moment: datetime) -> None:
        """Let time pass up to a moment, never backwards."""
        self.now = max(self.now, moment)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += timedelta(seconds=seconds)


class Agenda:
    """What is to happen, in order."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something happen after so many seconds."""
        heapq.heappush(self._due, (self._clock() + timedelta(seconds=seconds), next(self._numbers), action))

    @property
    def next_due(self) -> datetime | None:
        """When the next thing happens."""
        return self._due[0][0] if self._due else None

    def act(self) -> bool:
        """Do what is due; whether anything was."""
        acted = False
        while self._due and self._due[0][0] <= self._clock():
            heapq.heappop(self._due)[2]()
            acted = True
        return acted
