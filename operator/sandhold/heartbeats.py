"""Signs of life of the loops of a process: each says by when it will be heard of again; who asks is told who is late.

A loop that waits for work without end rests, and a resting loop is never late. It knows no loop, judges nothing and
ends nothing: `probes.py` asks it.
"""

import math
import time
from collections.abc import Callable


class Beat:
    """The sign of life of one loop. Calling it is the beat."""

    def __init__(self, name: str, bound: float, clock: Callable[[], float]) -> None:
        self.name = name
        self._bound = bound
        self._clock = clock
        self._last = self._due = 0.0
        self()

    def __call__(self, within: float | None = None) -> None:
        """The loop turns, and will do so again within so many seconds; within its bound if it says nothing."""
        self._last = self._clock()
        self._due = self._last + (self._bound if within is None else within)

    def rest(self) -> None:
        """The loop waits for work, however long that takes."""
        self._last, self._due = self._clock(), math.inf

    @property
    def age(self) -> float:
        """Seconds since the loop was heard of; 0 while it rests."""
        return 0.0 if self._due == math.inf else self._clock() - self._last

    @property
    def late(self) -> float:
        """Seconds that the next sign of life is overdue; 0 while it is not."""
        return max(0.0, self._clock() - self._due)


class Heartbeats:
    """All loops of a process that are to be heard of."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, Beat] = {}

    def loop(self, name: str, bound: float) -> Beat:
        """A loop begins: it is to be heard of within `bound` seconds, again and again. A name is one loop's."""
        beat = Beat(name, bound, self._clock)
        self._beats[name] = beat
        return beat

    def end(self, beat: Beat) -> None:
        """A loop ended on purpose."""
        if self._beats.get(beat.name) is beat:
            del self._beats[beat.name]

    def late(self) -> list[str]:
        """The loops that are late, in words."""
        overdue = ((beat, beat.late) for beat in self._beats.values())
        return [
            f"loop `{beat.name}` is {late:.0f} s late (seen {beat.age:.0f} s ago)" for beat, late in overdue if late
        ]

    def ages(self) -> dict[str, float]:
        """The age of the oldest sign of life by kind of loop, which is the first word of its name."""
        ages: dict[str, float] = {}
        for beat in self._beats.values():
            kind = beat.name.partition(" ")[0]
            ages[kind] = max(beat.age, ages.get(kind, 0.0))
        return ages
