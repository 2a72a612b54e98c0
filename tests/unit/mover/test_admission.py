"""Bounds on connections: a flood displaces itself, and never what has proved itself."""

import pytest

from sandhold.mover.admission import Admission, RefusedError, Ticket
from sandhold.mover.limits import Limits

LIMITS = Limits(
    unproven=4, unproven_per_address=3, admissions_per_second=100, reviews_per_address=2, proven=3, proven_per_pod=2
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """An admission, and who was displaced from it."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.clock = Clock()
        self.admission = Admission(limits, self.clock)
        self.displaced: list[str] = []

    def enter(self, address: str, name: str = "") -> Ticket:
        return self.admission.enter(address, lambda: self.displaced.append(name))

    def proven(self, address: str, pod: str) -> Ticket:
        ticket = self.enter(address)
        self.admission.review(ticket)
        self.admission.prove(ticket, pod)
        return ticket


def test_a_flood_from_one_address_displaces_its_own_oldest() -> None:
    bench = Bench()
    bench.enter("b", "b0")
    for number in range(5):
        bench.enter("a", f"a{number}")
    assert bench.displaced == ["a0", "a1"]


def test_when_all_is_full_the_busiest_address_pays() -> None:
    bench = Bench()
    for name in ("a0", "a1", "a2"):
        bench.enter("a", name)
    bench.enter("b", "b0")
    bench.enter("c", "c0")
    assert bench.displaced == ["a0"]


def test_nothing_displaces_what_is_reviewed_or_proven() -> None:
    bench = Bench()
    bench.proven("a", "pod")
    reviewed = bench.enter("a", "reviewed")
    bench.admission.review(reviewed)
    for number in range(6):
        bench.enter("a", f"a{number}")
    assert "reviewed" not in bench.displaced
    bench.admission.prove(reviewed, "pod")
    assert len(bench.displaced) == 3


def test_reviews_of_one_address_are_few() -> None:
    bench = Bench()
    for _ in range(2):
        bench.admission.review(bench.enter("a"))
    with pytest.raises(RefusedError, match="of one address"):
        bench.admission.review(bench.enter("a"))
    bench.admission.review(bench.enter("b"))


def test_an_address_whose_tokens_fail_has_to_wait_but_for_a_token_that_was_good_before() -> None:
    bench = Bench(Limits(failures_per_second=1, failures_at_once=2))
    for _ in range(2):
        ticket = bench.enter("a")
        bench.admission.review(ticket)
        assert bench.admission.fail(ticket)
        bench.admission.leave(ticket)
    with pytest.raises(RefusedError, match="refused lately"):
        bench.admission.review(bench.enter("a"))
    assert not bench.admission.fail(ticket)
    bench.admission.review(bench.enter("a"), proved_before=True)
    bench.admission.review(bench.enter("b"))
    bench.clock.now = 1.1
    bench.admission.review(bench.enter("a"))


def test_a_pod_and_a_mover_have_their_bounds_and_leaving_makes_room() -> None:
    bench = Bench()
    first = bench.proven("a", "pod")
    bench.proven("a", "pod")
    with pytest.raises(RefusedError, match="this pod has 2"):
        bench.proven("a", "pod")
    bench.proven("b", "other")
    with pytest.raises(RefusedError, match="this mover has 3"):
        bench.proven("c", "third")
    bench.admission.leave(first)
    bench.admission.leave(first)
    bench.proven("c", "third")
    with pytest.raises(RefusedError, match="this mover has 3"):
        bench.proven("d", "fourth")


def test_a_refused_proof_leaves_no_count_behind() -> None:
    bench = Bench()
    for _ in range(3):
        ticket = bench.enter("a")
        bench.admission.leave(ticket)
    for _ in range(5):
        ticket = bench.enter("a", "kept")
        bench.admission.review(ticket)
        bench.admission.leave(ticket)
    assert bench.displaced == []


def test_too_many_a_second_are_refused_and_time_makes_room() -> None:
    bench = Bench(Limits(admissions_per_second=10, unproven=1000, unproven_per_address=1000))
    for _ in range(10):
        bench.enter("a")
    with pytest.raises(RefusedError, match="a second"):
        bench.enter("a")
    bench.enter("b")
    bench.clock.now = 0.11
    bench.enter("a")
    with pytest.raises(RefusedError, match="a second"):
        bench.enter("a")


def test_addresses_are_not_remembered_without_bound() -> None:
    bench = Bench()
    for number in range(10_000):
        bench.admission.leave(bench.enter(f"a{number}"))
    assert len(bench.admission._arrivals) <= 4096
    assert not bench.admission._by_address
    assert not bench.admission._unproven
