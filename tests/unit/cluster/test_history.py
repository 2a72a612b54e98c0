"""What the store holds is asked when it may have changed, and never holds up what does not need it."""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from sandhold.cluster.history import MOST_QUESTIONS, SLOW, Fingerprints, Histories
from sandhold.desired.plan import Fence
from sandhold.desired.world import Keeper, Present, SlotHistory, StoreTrouble, Unknown
from testkit import worlds

EMPTY = SlotHistory(None, None)


class Movers:
    """Answers what it is told to, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: SlotHistory | StoreTrouble | Unknown = EMPTY
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.dead: set[str] = set()
        self.revived = asyncio.Event()

    async def history(self, store: str, _slot: str) -> SlotHistory | StoreTrouble | Unknown:
        self.asked += 1
        if store in self.dead:
            await self.revived.wait()
        await self.may_answer.wait()
        return self.answer

    def keepers(self) -> Mapping[str, Keeper]:
        raise NotImplementedError

    def subscribe(self, _: Any) -> None:
        raise NotImplementedError

    async def fence(self, _: Fence) -> StoreTrouble | None:
        raise NotImplementedError

    async def order(self, _uid: str, _order: Mapping[str, Any]) -> None:
        raise NotImplementedError


async def test_the_same_fingerprint_asks_once_and_another_asks_again() -> None:
    movers = Movers()
    histories = Histories(movers)
    for _ in range(3):
        assert await histories.of("main", "slot", 1) == EMPTY
    assert movers.asked == 1
    await histories.of("main", "slot", 2)
    assert movers.asked == 2
    await histories.of("main", "slot", 1)
    assert movers.asked == 3, "an older state of ours is no reason to believe an older answer"


def test_a_pod_that_ends_and_a_keeper_that_falls_silent_ask_again() -> None:
    """What it stored last it may never have been heard to say."""
    fingerprints, session, keeper = Fingerprints(), worlds.a_session(), worlds.a_keeper("Open")

    def now(keeper: Keeper, *, is_dead: bool) -> Hashable:
        pod = worlds.a_pod(is_dead=is_dead)
        return fingerprints.of(session, {pod["metadata"]["uid"]: keeper}, Present((pod,)))

    silent = replace(keeper, connected=False)
    assert len({now(keeper, is_dead=False), now(keeper, is_dead=True), now(silent, is_dead=False)}) == 3
    assert now(keeper, is_dead=False) == now(keeper, is_dead=False)


async def test_troubles_are_never_kept() -> None:
    movers = Movers()
    histories = Histories(movers)
    movers.answer = StoreTrouble("snapshot_store_unavailable", "away", retryable=True)
    assert await histories.of("main", "slot", 1) == movers.answer
    movers.answer = EMPTY
    assert await histories.of("main", "slot", 1) == EMPTY


async def test_forgetting_asks_again() -> None:
    movers = Movers()
    histories = Histories(movers)
    await histories.of("main", "slot", 1)
    histories.forget("main", "slot")
    await histories.of("main", "slot", 1)
    assert movers.asked == 2


async def test_a_slow_store_holds_nobody_up_and_its_answer_is_found_later() -> None:
    movers = Movers()
    histories = Histories(movers, patience=0.02)
    movers.may_answer.clear()
    assert await histories.of("main", "slot", 1) is SLOW
    assert await histories.of("main", "slot", 1) is SLOW
    assert movers.asked == 1, "one question is enough"
    movers.may_answer.set()
    await asyncio.sleep(0.01)
    assert await histories.of("main", "slot", 1) == EMPTY
    assert movers.asked == 1


async def test_open_questions_are_bounded() -> None:
    movers = Movers()
    histories = Histories(movers, patience=0.001)
    movers.may_answer.clear()
    for number in range(MOST_QUESTIONS + 10):
        assert await histories.of("main", f"slot-{number}", 1) is SLOW
    assert movers.asked == MOST_QUESTIONS
    movers.may_answer.set()
    await asyncio.sleep(0.01)
    assert await histories.of("main", f"slot-{MOST_QUESTIONS + 5}", 1) == EMPTY


async def test_a_dead_store_takes_no_questions_from_another_and_holds_no_worker_for_long() -> None:
    """Whoever starts sessions on a store that is away must not keep those on every other store from starting."""
    movers = Movers()
    movers.dead.add("away")
    histories = Histories(movers, patience=0.05)
    began = asyncio.get_running_loop().time()
    for number in range(4 * MOST_QUESTIONS):
        assert await histories.of("away", f"slot-{number}", 1) is SLOW
        assert await histories.of("main", f"slot-{number}", 1) == EMPTY
    assert movers.asked == 5 * MOST_QUESTIONS
    assert asyncio.get_running_loop().time() - began < 1, "one wait in vain is enough to know of it"
    movers.revived.set()
    await asyncio.sleep(0.01)
    later = f"slot-{2 * MOST_QUESTIONS}"
    await histories.of("away", later, 1)
    await asyncio.sleep(0.01)
    assert await histories.of("away", later, 1) == EMPTY
    assert not histories._slow, "an answer in time makes it a store that is waited for"


async def test_a_store_that_fails_at_once_is_waited_for() -> None:
    """Slow is who does not answer; a trouble is an answer."""
    movers = Movers()
    movers.answer = StoreTrouble("snapshot_store_unavailable", "away", retryable=True)
    histories = Histories(movers, patience=0.05)
    for number in range(3):
        assert await histories.of("main", f"slot-{number}", 1) == movers.answer
