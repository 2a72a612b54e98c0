"""Events that never come, one at a time; lists of a server that lags; conflicts at random; successors of the same name.

Whatever was not heard is found by the next list, and nothing is deleted or changed for a successor's sake.
"""

import random

import pytest

from testkit.fault_matrix import FaultMatrix, Where
from testkit.faults import Faults, Kind
from testkit.playing import ending, played, played_in, undisturbed
from testkit.small_world import SmallWorld, WatchPolicy
from testkit.stale_world import StaleWorld
from testkit.stories import SANDBOX, SESSION, SPEC, STORIES, Story, start, stop, uid

PLAYED = [story for story in STORIES if story.name in ("start", "stop", "delete")]


class Losing:
    """Loses the event of one number, and counts them all."""

    def __init__(self, lost: int = -1) -> None:
        self._lost = lost
        self.heard = 0

    def loses(self, number: int) -> bool:
        self.heard = max(self.heard, number)
        return number == self._lost


@pytest.mark.parametrize("story", PLAYED, ids=str)
async def test_any_one_event_of_a_watch_is_lost(story: Story, matrix: FaultMatrix) -> None:
    fault = matrix.begin("any one watch event lost", Where.MEMORY)
    counts = Losing()
    expected = ending(await played(story, None, WatchPolicy(loses=counts.loses, relist_seconds=30)))
    assert counts.heard > 8
    found = [
        ending(await played(story, None, WatchPolicy(loses=Losing(lost).loses, relist_seconds=30)))
        for lost in range(counts.heard + 1)
    ]
    fault.judge_ending([expected] * len(found), found)


@pytest.mark.parametrize("story", PLAYED, ids=str)
async def test_a_fifth_of_all_writes_meets_a_conflict(story: Story, matrix: FaultMatrix) -> None:
    fault = matrix.begin("a fifth of all writes meets a 409", Where.MEMORY)
    expected, _ = await undisturbed(story)
    found, raised = [], 0
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311 - a run that can be played again
        faults = Faults({number: Kind.CONFLICT for number in range(400) if rng.random() < 0.2})
        world = await played(story, faults)
        raised += len(world.faults.raised)
        found.append(ending(world))
    assert raised >= 12
    fault.judge_ending([expected] * len(found), found)


async def recreated(world: SmallWorld) -> None:
    """A session goes and comes back under its name, its sandbox as well, faster than anybody is told."""
    await stop(world)
    first = uid(world)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.session(SESSION) is None)
    world.create("SandboxSession", SESSION, {"sandboxRef": {"name": SANDBOX}})
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert uid(world) != first
    assert "first" in world.home.pod_of(uid(world)).files
    world.delete("AgentSandbox", SANDBOX)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: not any(world.cluster.objects.count(k) for k in ("SandboxSession", "AgentSandbox")))
    world.create("AgentSandbox", SANDBOX, SPEC)
    world.create("SandboxSession", SESSION, {"sandboxRef": {"name": SANDBOX}})
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert "first" in world.home.pod_of(uid(world)).files


STALE = (*PLAYED, Story(recreated, start))


@pytest.mark.parametrize("story", STALE, ids=str)
@pytest.mark.parametrize("lag", [0.4, 2.0, 10.0])
async def test_lists_of_a_server_that_lags(story: Story, lag: float, matrix: FaultMatrix) -> None:
    """The watch tells the truth while every second a list tells what was: the newer knowledge stands."""
    fault = matrix.begin(f"lists are {lag:g} s old", Where.MEMORY)
    expected, _ = await undisturbed(story)
    world = await played_in(StaleWorld(lag, WatchPolicy(relist_seconds=1)), story)
    assert world.stale_lists >= 10
    fault.judge_ending(expected, ending(world))


@pytest.mark.parametrize("story", STALE, ids=str)
async def test_lists_and_watch_both_lag(story: Story, matrix: FaultMatrix) -> None:
    """All that the operator is told is two seconds old, its own writes included."""
    fault = matrix.begin("watch and lists are 2 s old", Where.MEMORY)
    expected, _ = await undisturbed(story)
    world = await played_in(StaleWorld(2.0, WatchPolicy(delay=2.0, relist_seconds=1)), story)
    fault.judge_ending(expected, ending(world))
