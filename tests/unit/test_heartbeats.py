"""Each loop is late when it said it would be heard of, and no loop is while it rests."""

from sandhold.heartbeats import Heartbeats


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_is_late_after_its_bound_and_well_after_a_beat() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    beat = heartbeats.loop("workers 1", 10)
    clock.now += 10
    assert heartbeats.late() == []
    clock.now += 5
    assert heartbeats.late() == ["loop `workers 1` is 5 s late (seen 15 s ago)"]
    beat()
    assert heartbeats.late() == []


def test_a_loop_may_say_for_itself_how_long_the_next_turn_takes() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    beat = heartbeats.loop("lists Pod", 10)
    beat(300)
    clock.now += 299
    assert heartbeats.late() == []
    clock.now += 2
    assert heartbeats.late()
    beat()
    clock.now += 11
    assert heartbeats.late(), "the longer time was for one turn"


def test_a_loop_that_waits_for_work_is_never_late() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    beat = heartbeats.loop("movers", 10)
    beat.rest()
    clock.now += 1_000_000
    assert heartbeats.late() == []
    assert heartbeats.ages() == {"movers": 0.0}
    beat()
    clock.now += 11
    assert heartbeats.late()


def test_a_loop_that_ended_is_not_missed_and_a_new_one_takes_its_name() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    old = heartbeats.loop("movers 10.0.0.1:7444", 10)
    new = heartbeats.loop("movers 10.0.0.1:7444", 10)
    clock.now += 11
    heartbeats.end(old)
    assert len(heartbeats.late()) == 1, "the old one's end is not the new one's"
    heartbeats.end(new)
    assert heartbeats.late() == []


def test_ages_are_those_of_the_oldest_of_each_kind() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    heartbeats.loop("workers 1", 10)
    clock.now += 3
    heartbeats.loop("workers 2", 10)
    clock.now += 1
    assert heartbeats.ages() == {"workers": 4.0}
