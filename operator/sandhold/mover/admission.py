"""Which connections may be there: bounds against pods that open many, and room kept for proven keepers.

Pure but for the clock it is given. An agent shares its keeper's address, so a bound per address alone would let an
agent lock its keeper out; instead the oldest connection that has not proved itself makes room for the newest one of
the busiest address. A keeper proves itself within milliseconds, and once it has, nothing that is unproven displaces it.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sandhold.mover.limits import Limits
from sandhold.mover.rates import Rates


class RefusedError(Exception):
    """There is no room for this connection. The text says which bound it met."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One connection, from its acceptance to its end."""

    address: str
    displace: Callable[[], None] | None
    pod_uid: str | None = None
    in_review: bool = False


@dataclass(slots=True)
class Admission:
    """All connections to the keepers' port."""

    limits: Limits
    clock: Callable[[], float]
    _unproven: "OrderedDict[int, Ticket]" = field(default_factory=OrderedDict)
    _by_address: Counter[str] = field(default_factory=Counter)
    _reviews: Counter[str] = field(default_factory=Counter)
    _proven: Counter[str] = field(default_factory=Counter)
    _arrivals: Rates = field(init=False)
    _failures: Rates = field(init=False)

    def __post_init__(self) -> None:
        arrivals = self.limits.admissions_per_second
        self._arrivals = Rates(arrivals, arrivals, self.clock)
        self._failures = Rates(self.limits.failures_per_second, self.limits.failures_at_once, self.clock)

    @property
    def unproven(self) -> int:
        """Connections that have not proved themselves, and whose token is not being reviewed."""
        return len(self._unproven)

    @property
    def in_review(self) -> int:
        """Connections whose token is being reviewed."""
        return self._reviews.total()

    @property
    def proven(self) -> int:
        """Connections of keepers that have proved themselves."""
        return self._proven.total()

    def enter(self, address: str, displace: Callable[[], None]) -> Ticket:
        """Let a new connection in; it may cost an older unproven one its place."""
        if not self._arrivals.take(address):
            raise RefusedError("too many new connections a second from one address")
        while self._by_address[address] >= self.limits.unproven_per_address:
            self._displace_oldest(address)
        while len(self._unproven) >= self.limits.unproven:
            self._displace_oldest(self._by_address.most_common(1)[0][0])
        ticket = Ticket(address, displace)
        self._unproven[id(ticket)] = ticket
        self._by_address[address] += 1
        return ticket

    def review(self, ticket: Ticket, *, proved_before: bool = False) -> None:
        """Its token is about to be reviewed: it cannot be displaced now, so there is a narrow bound of its own.

        An address whose tokens fail has to wait, but for a token that has proved itself before: an agent that invents
        tokens spends what its address has, and its keeper still gets in.
        """
        if not proved_before and not self._failures.has_room(ticket.address):
            raise RefusedError("too many tokens of this address were refused lately")
        if id(ticket) not in self._unproven:
            raise RefusedError("displaced by newer connections")
        if self._reviews[ticket.address] >= self.limits.reviews_per_address:
            raise RefusedError("too many tokens of one address are being reviewed")
        if self._reviews.total() >= self.limits.unproven:
            raise RefusedError("too many tokens are being reviewed")
        self._forget_unproven(ticket)
        ticket.in_review = True
        self._reviews[ticket.address] += 1

    def prove(self, ticket: Ticket, pod_uid: str) -> None:
        """It is a keeper's: from here on only bounds on proven connections count."""
        self._forget_review(ticket)
        if self._proven[pod_uid] >= self.limits.proven_per_pod:
            raise RefusedError(f"this pod has {self.limits.proven_per_pod} connections already")
        if self._proven.total() >= self.limits.proven:
            raise RefusedError(f"this mover has {self.limits.proven} proven connections already")
        ticket.pod_uid, ticket.displace = pod_uid, None
        self._proven[pod_uid] += 1

    def fail(self, ticket: Ticket) -> bool:
        """Its token proved nothing. Whether that is worth a word: not more often than it may fail."""
        return self._failures.take(ticket.address)

    def leave(self, ticket: Ticket) -> None:
        """It is gone."""
        self._forget_unproven(ticket)
        self._forget_review(ticket)
        if ticket.pod_uid is not None:
            _decrease(self._proven, ticket.pod_uid)
            ticket.pod_uid = None

    def _displace_oldest(self, address: str) -> None:
        oldest = next(ticket for ticket in self._unproven.values() if ticket.address == address)
        self._forget_unproven(oldest)
        if oldest.displace is not None:
            oldest.displace()

    def _forget_unproven(self, ticket: Ticket) -> None:
        if self._unproven.pop(id(ticket), None) is not None:
            _decrease(self._by_address, ticket.address)

    def _forget_review(self, ticket: Ticket) -> None:
        if ticket.in_review:
            ticket.in_review = False
            _decrease(self._reviews, ticket.address)


def _decrease(counter: Counter[str], key: str) -> None:
    """Count one less, and keep no zeros: keys are as many as pods that ever called."""
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
