"""Every bound of the mover in one place: how much, how many, how long.

They hold against hostile pods and dead stores. A test passes smaller ones; nothing else should have to.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one mover."""

    unproven: int = 256
    """Connections that have not proved who they are; beyond it the oldest of the busiest address goes."""
    unproven_per_address: int = 32
    """An agent shares its keeper's address: what it opens displaces its own, not others'."""
    admissions_per_second: float = 100
    """New connections from one address; what comes faster is closed at once, before any TLS."""
    proving_seconds: float = 10
    """TLS handshake and first frame together."""
    failures_per_second: float = 0.5
    failures_at_once: float = 10
    """Tokens of one address that may be refused before it has to wait: the API server is not ours to burden."""
    reviews: int = 32
    """TokenReviews at once."""
    reviews_per_address: int = 4
    proven: int = 20_000
    proven_per_pod: int = 6
    """Control connections and transfers of one pod together: a replaced one may take a moment to go."""

    transfers: int = 8
    """At once; each holds up to 40 MiB. More wait for their turn."""
    turn_seconds: float = 300
    """An archive waits that long for its turn, and tells its keeper so."""
    restore_turn_seconds: float = 30
    earlier_seconds: float = 2
    """A transfer waits so long for the end of the pod's earlier one, which it cancels."""
    look_seconds: float = 5
    """An archive's look at its epoch: a keeper waits 10 s for `welcome`, and its token is reviewed within them too."""
    looks_per_store: int = 8
    look_threads: int = 32
    """For the looks of several stores, some of which may hang."""
    prunings: int = 4
    """Slots in which superfluous checkpoints are looked for at once; more wait."""
    prunings_waiting: int = 256
    """Slots that wait for that; more are left for their next checkpoint."""
    wait_every_seconds: float = 5
    seconds_for_any_transfer: float = 600
    bytes_a_second: int = 1024 * 1024
    """A transfer may take the one, and what its size takes at the other: slower than that, it only holds a place."""
    linger_seconds: float = 2
    """So long the mover listens on after `failed`, so that a reset does not overtake it."""

    operators: int = 16
    operators_unproven: int = 16
    """TLS handshakes on the operator's port at once; beyond it the oldest goes."""
    requests: int = 64
    """Requests of one operator that are worked on at once; beyond it the mover stops reading."""
    request_threads: int = 8
    transfer_threads: int = 32
    """Apart, so that a store that hangs under transfers delays no operator."""
    drain_seconds: float = 35
    """Running transfers may go on so long after SIGTERM. The pod's grace must be longer."""
    cleanup_seconds: float = 8
