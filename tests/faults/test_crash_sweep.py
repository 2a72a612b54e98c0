"""The operator dies before and after every single write and order, and nothing comes of it.

Each story is played once undisturbed, which counts the calls that change something; then with a branch for each cut, in
which a new operator goes on that knows only what it can read. The same for refused and lost answers, and for watches
that lag or lose. What a branch is named after, `Faults({number: kind})` plays alone.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from testkit.branching import Branching, BranchingFaults
from testkit.fault_matrix import Fault, FaultMatrix, Where
from testkit.faults import Kind
from testkit.playing import end_of, ending, played, undisturbed
from testkit.running_stories import RUNNING_STORIES
from testkit.small_world import SmallWorld, WatchPolicy
from testkit.stories import STORIES, Story

ALL = (*STORIES, *RUNNING_STORIES)


async def calls_of_the_beginning(story: Story, calls: Sequence[str], watch: WatchPolicy | None) -> int:
    """How many of a story's calls belong to the story that it begins with, and have their faults there."""
    if story.begins_with is None:
        return 0
    world = SmallWorld(None, watch)
    await story.begins_with(world)
    end_of(world)
    return next(
        (number for number, (one, other) in enumerate(zip(calls, world.faults.calls, strict=False)) if one != other),
        min(len(calls), world.writes()),
    )


async def sweep(fault: Fault, story: Story, *kinds: Kind, watch: WatchPolicy | None = None) -> int:
    """Play the story with a fault at every call of its own; how many faults came, which are all that were meant to."""
    expected, calls = await undisturbed(story, watch)
    numbers = range(await calls_of_the_beginning(story, calls, watch), len(calls))
    assert numbers, "a story without a call of its own would be swept by looking away"
    branching: Branching[tuple[dict[str, Any], int]] = Branching()

    async def play() -> tuple[dict[str, Any], int]:
        world = await played(story, BranchingFaults(branching, kinds, numbers), watch)
        return ending(world), len(world.faults.raised)

    assert await branching.play(play) == (expected, 0), f"story {story.name} is not the same twice"
    for name, (found, _) in branching.found.items():
        assert found == expected, f"story {story.name}, {name}"
    happened = sum(raised for _, raised in branching.found.values())
    assert happened == len(numbers) * len(kinds), "every fault that was meant to come has come"
    fault.judge_ending([expected] * happened, [found for found, _ in branching.found.values()])
    return happened


@pytest.mark.parametrize("story", ALL, ids=str)
async def test_an_operator_that_dies_at_any_call_is_continued_by_the_next(
    story: Story, matrix: FaultMatrix, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = matrix.begin("operator dies before or after any write or order", Where.MEMORY)
    cuts = await sweep(fault, story, Kind.CUT_BEFORE, Kind.CUT_AFTER)
    tell(capsys, f"{story.name}: {cuts} cuts")


@pytest.mark.parametrize("story", ALL, ids=str)
async def test_a_refused_or_lost_answer_to_any_call_is_made_good(
    story: Story, matrix: FaultMatrix, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = matrix.begin("any write or order is refused, or its answer lost", Where.MEMORY)
    faults = await sweep(fault, story, Kind.CONFLICT, Kind.SERVER_ERROR, Kind.DROPPED_ANSWER)
    tell(capsys, f"{story.name}: {faults} faults")


@pytest.mark.parametrize("story", [each for each in STORIES if each.name in ("start", "stop", "delete")], ids=str)
async def test_an_answer_is_lost_while_the_watch_lags(
    story: Story, matrix: FaultMatrix, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody tells for a while what was committed: the same write comes once more, and meets the first one."""
    fault = matrix.begin("any answer is lost while the watch lags", Where.MEMORY)
    faults = await sweep(fault, story, Kind.DROPPED_ANSWER, Kind.CONFLICT, watch=WatchPolicy(delay=3))
    tell(capsys, f"{story.name}: {faults} faults")


def tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """How much was covered is part of the result, and shown even when nothing fails."""
    with capsys.disabled():
        print(f"\n  {text}", end=" ")  # noqa: T201


@pytest.mark.parametrize("story", ALL, ids=str)
@pytest.mark.parametrize(
    "watch",
    [
        WatchPolicy(delay=0.7),
        WatchPolicy(delay=5),
        WatchPolicy(loses=lambda number: number % 3 == 0),
        WatchPolicy(loses=lambda _: True, relist_seconds=10),
    ],
    ids=["late", "very late", "every third lost", "mute"],
)
async def test_a_watch_that_lags_or_loses_events_only_takes_longer(
    story: Story, watch: WatchPolicy, matrix: FaultMatrix
) -> None:
    fault = matrix.begin("the watch lags or loses events", Where.MEMORY)
    (expected, _), found = await undisturbed(story), ending(await played(story, None, watch))
    if story.is_a_race:
        for kept in ("archives", "snapshots", "sessions"):
            del expected[kept], found[kept]
    fault.judge_ending(expected, found)
