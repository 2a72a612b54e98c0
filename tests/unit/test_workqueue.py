"""The laws of the work queue."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandhold.workqueue import LONGEST_DELAY, Key, QueueFullError, WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def key(name: str, namespace: str = "a") -> Key:
    return Key("SandboxSession", namespace, name)


async def taken(queue: WorkQueue) -> Key | None:
    """The next key, or None when nothing waits."""
    try:
        return await asyncio.wait_for(queue.get(), 0.01)
    except TimeoutError:
        return None


async def test_a_key_waits_once_however_often_it_is_added() -> None:
    queue = WorkQueue()
    for _ in range(10):
        queue.add(key("one"))
    assert queue.depth == 1
    assert await taken(queue) == key("one")
    assert await taken(queue) is None


async def test_a_key_is_never_handed_out_twice_at_once_and_comes_again_afterwards() -> None:
    queue = WorkQueue()
    queue.add(key("one"))
    assert await taken(queue) == key("one")
    queue.add(key("one"))
    queue.add(key("one"))
    assert await taken(queue) is None
    queue.done(key("one"))
    assert await taken(queue) == key("one")
    queue.done(key("one"))
    assert await taken(queue) is None


async def test_namespaces_take_turns() -> None:
    queue = WorkQueue()
    for number in range(100):
        queue.add(key(f"many-{number}", "busy"))
    queue.add(key("single", "quiet"))
    first_two = [await taken(queue), await taken(queue)]
    assert key("single", "quiet") in first_two


async def test_inside_a_namespace_first_come_is_first_served() -> None:
    queue = WorkQueue()
    for name in "abc":
        queue.add(key(name))
    assert [await taken(queue) for _ in range(3)] == [key("a"), key("b"), key("c")]


async def test_of_delayed_wishes_the_earliest_holds() -> None:
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add_after(key("one"), 30)
    queue.add_after(key("one"), 10)
    queue.add_after(key("one"), 20)
    clock.now += 9.9
    queue.wake()
    assert queue.depth == 0
    clock.now += 0.2
    queue.wake()
    assert await taken(queue) == key("one")
    queue.done(key("one"))
    clock.now += 100
    queue.wake()
    assert queue.depth == 0
    queue.close()


async def test_a_pass_that_begins_drops_the_wish_for_a_later_one() -> None:
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add_after(key("one"), 10)
    queue.add(key("one"))
    assert await taken(queue) == key("one")
    queue.done(key("one"))
    clock.now += 11
    queue.wake()
    assert queue.depth == 0
    queue.close()


async def test_a_delayed_key_arrives_by_itself() -> None:
    queue = WorkQueue()
    queue.add_after(key("one"), 0.02)
    assert await asyncio.wait_for(queue.get(), 2) == key("one")
    queue.close()


async def test_failures_wait_longer_each_time_and_forgetting_starts_anew() -> None:
    queue = WorkQueue(clock=Clock(), rng=random.Random(1))  # noqa: S311 - a fixed sequence
    delays = [queue.add_failed(key("one")) for _ in range(14)]
    assert all(later > earlier * 1.01 for earlier, later in zip(delays[:8], delays[2:10], strict=True))
    assert max(delays) <= LONGEST_DELAY
    assert delays[-1] >= LONGEST_DELAY / 2
    queue.forget(key("one"))
    assert queue.add_failed(key("one")) <= delays[0] * 2
    queue.close()


async def test_a_server_that_asks_for_time_gets_it() -> None:
    queue = WorkQueue(clock=Clock())
    assert queue.add_failed(key("one"), at_least=7.0) == 7.0
    queue.close()


async def test_the_queue_is_bounded() -> None:
    queue = WorkQueue(limit=2)
    queue.add(key("a"))
    queue.add(key("b"))
    queue.add(key("a"))
    with pytest.raises(QueueFullError):
        queue.add(key("c"))
    queue.add_after(key("x"), 1)
    queue.add_after(key("y"), 1)
    with pytest.raises(QueueFullError):
        queue.add_after(key("z"), 1)
    queue.close()


async def test_the_heap_does_not_grow_with_repeated_wishes() -> None:
    clock = Clock()
    queue = WorkQueue(clock=clock)
    for number in range(10_000):
        queue.add_after(key("one"), 10_000 - number / 2)
    assert len(queue._heap) <= 65
    queue.close()


async def test_the_oldest_is_the_one_that_waits_longest_in_any_namespace() -> None:
    clock = Clock()
    queue = WorkQueue(clock=clock)
    assert queue.oldest == 0
    queue.add(key("a", "one"))
    clock.now += 5
    queue.add(key("b", "two"))
    clock.now += 1
    assert queue.oldest == 6


STEPS = st.lists(st.tuples(st.sampled_from(["add", "take", "done"]), st.integers(0, 4), st.integers(0, 2)), max_size=60)


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_every_added_key_is_worked_on_after_its_last_add(steps: list[tuple[str, int, int]]) -> None:
    """Serial per key, and nothing is lost: a model of sets beside the queue."""

    async def run() -> None:
        queue = WorkQueue()
        owed: set[Key] = set()
        working: list[Key] = []
        for what, number, namespace in steps:
            one = key(str(number), str(namespace))
            if what == "add":
                queue.add(one)
                owed.add(one)
            elif what == "take" and queue.depth:
                got = await queue.get()
                assert got not in working
                assert got in owed
                owed.discard(got)
                working.append(got)
            elif what == "done" and working:
                queue.done(working.pop(number % len(working)))
        for one in working:
            queue.done(one)
        while queue.depth:
            got = await queue.get()
            owed.discard(got)
            queue.done(got)
        assert not owed

    asyncio.run(run())
