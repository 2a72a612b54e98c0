"""How often each of many may do something: a token bucket for every name, and a bound on how many names are kept."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_NAMES = 4096


@dataclass(slots=True)
class _Bucket:
    room: float
    at: float


@dataclass(slots=True)
class Rates:
    """So many a second for each name, and so many at once. A name that is forgotten begins anew."""

    per_second: float
    at_once: float
    clock: Callable[[], float]
    _buckets: "OrderedDict[str, _Bucket]" = field(default_factory=OrderedDict)

    def has_room(self, name: str) -> bool:
        """Whether it may do it now."""
        return self._refill(name).room >= 1

    def take(self, name: str) -> bool:
        """Do it, if it may."""
        bucket = self._refill(name)
        if bucket.room < 1:
            return False
        bucket.room -= 1
        return True

    def __len__(self) -> int:
        return len(self._buckets)

    def _refill(self, name: str) -> _Bucket:
        now = self.clock()
        bucket = self._buckets.pop(name, None) or _Bucket(self.at_once, now)
        bucket.room = min(self.at_once, bucket.room + (now - bucket.at) * self.per_second)
        bucket.at = now
        self._buckets[name] = bucket
        while len(self._buckets) > _MOST_NAMES:
            self._buckets.popitem(last=False)
        return bucket
