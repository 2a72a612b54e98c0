"""Faults for the fakes: every call that changes the world gets a number, and a test says what happens at which number.

The numbers run over both fakes (API server and movers), so that one sweep covers every write and every order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from sandhold.errors import ConflictError, ForbiddenError, UnavailableError

RETRY_AFTER = 7.0
"""Seconds that a server which is overloaded asks for."""


class Killed(BaseException):
    """The operator's process ends here. Not an Exception: no code under test may catch it and go on."""


class Kind(StrEnum):
    """What happens at a call."""

    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"
    CONFLICT = "409"
    TOO_MANY = "429"
    SERVER_ERROR = "500"
    FORBIDDEN = "403"
    DROPPED_ANSWER = "answer dropped after commit"


_BEFORE: dict[Kind, Callable[[str], BaseException]] = {
    Kind.CUT_BEFORE: Killed,
    Kind.CONFLICT: lambda what: ConflictError(f"{what}: injected 409"),
    Kind.TOO_MANY: lambda what: UnavailableError(f"{what}: injected 429", retry_after=RETRY_AFTER),
    Kind.SERVER_ERROR: lambda what: UnavailableError(f"{what}: injected 500"),
    Kind.FORBIDDEN: lambda what: ForbiddenError(f"{what}: injected 403"),
}
_AFTER: dict[Kind, Callable[[str], BaseException]] = {
    Kind.CUT_AFTER: Killed,
    Kind.DROPPED_ANSWER: lambda what: UnavailableError(f"{what}: injected end of the connection after the commit"),
}


@dataclass
class Faults:
    """Counts the calls that change something, and raises at those that a test named (counted from 0)."""

    at: dict[int, Kind] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)

    def before(self, what: str) -> int:
        """A call arrives; it gets the number that is returned."""
        number = len(self.calls)
        self.calls.append(what)
        self._raise(_BEFORE, number)
        return number

    def after(self, number: int) -> None:
        """The call of this number has been committed."""
        self._raise(_AFTER, number)

    def _raise(self, kinds: dict[Kind, Callable[[str], BaseException]], number: int) -> None:
        kind = self.at.get(number)
        if kind in kinds:
            what = self.calls[number]
            self.raised.append(f"{kind} {number}: {what}")
            raise kinds[kind](what)
