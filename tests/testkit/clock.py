"""A clock that only a test moves."""

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
