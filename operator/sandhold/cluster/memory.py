"""What this process remembers between passes: never needed for being right, only for being quick and quiet.

Everything here is bounded and may be forgotten at any time: a restart forgets all of it, and the next pass observes,
asks or writes once more, which is harmless by construction.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sandhold.desired.plan import Reference
from sandhold.desired.world import RefusedRecord
from sandhold.reasons import Refusal

K = TypeVar("K")
V = TypeVar("V")
MOST = 20_000


class Recent(Generic[K, V]):
    """A mapping that forgets what was not written for longest once it is full."""

    def __init__(self, limit: int = MOST) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What was kept, if it was."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Forget a value, and give it."""
        return self._entries.pop(key, None)


@dataclass(frozen=True, slots=True)
class Ending:
    """When (monotonic) a namespace was last thought about, and what a read then said, if there was one."""

    at: float
    is_confirmed: bool | None = None


@dataclass(slots=True)
class Memory:
    """The notes that observing, applying and the event sink leave for each other."""

    suspects: Recent[Reference, str] = field(default_factory=Recent)
    """Names that ours need and where a create met something else; the value is that object's UID."""
    fenced: Recent[str, int] = field(default_factory=Recent)
    """Session UID to the epoch whose fence a mover confirmed."""
    ending: Recent[str, Ending] = field(default_factory=Recent)
    """Namespaces of which something suggested that they are being deleted."""
    posted: Recent[str, int] = field(default_factory=Recent)
    """Session UID to the epoch of the pod that was made last and that we have not deleted."""
    refused: Recent[str, Refusal] = field(default_factory=Recent)
    """Session UID to why the API server refused its last pod."""
    unrecorded: Recent[str, RefusedRecord] = field(default_factory=Recent)
    """Session UID to the SandboxSnapshot that the API server did not write."""
    seen: Recent[str, float] = field(default_factory=Recent)
    """UID of each new session to when its first event came (monotonic), until its pod was posted."""
