"""The operator dies before and after every single write and order, and nothing comes of it.

Each story is played once undisturbed, which counts the calls that change something; then once for each cut, with a new
operator that knows only what it can read. The same for refused and lost answers, and for watches that lag or lose.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from testkit.faults import Faults, Kind
from testkit.small_world import SmallWorld, WatchPolicy
from testkit.stories import STORIES, Story

REST_SECONDS = 900
FEWEST_CUTS = 8


async def played(story: Story, faults: Faults | None = None, watch: WatchPolicy | None = None) -> SmallWorld:
    """The world after a story, at rest; whatever must never happen is asserted here."""
    world = SmallWorld(faults, watch)
    try:
        await story.play(world)
        await world.rest(120)
        writes = world.writes()
        await world.rest(REST_SECONDS)
        assert world.faults.calls[writes:] == [], f"writes at rest\n{world.describe()}"
        assert world.home.violations == [], world.describe()
    finally:
        if world.operator is not None:
            world.operator.end()
    return world


def ending(world: SmallWorld) -> dict[str, Any]:
    """What must be the same at the end of a story, whatever happened on its way."""
    objects = world.cluster.objects
    slots = [
        {position: sorted(stored.content) for position, stored in slot.items() if position[1]}
        for slot in world.home.store.slots.values()
    ]
    return {
        "sessions": [_settled(each) for each in objects.all("SandboxSession")],
        "sandboxes": [_settled(each) for each in objects.all("AgentSandbox")],
        "pods": [each["metadata"]["labels"] for each in objects.all("Pod")],
        "policies": len(objects.all("NetworkPolicy")),
        "accounts": len(objects.all("ServiceAccount")),
        "snapshots": [
            (each["spec"], each["status"]["phase"], each["status"]["files"]) for each in objects.all("SandboxSnapshot")
        ],
        "archives": [[slot[position] for position in sorted(slot)] for slot in slots if slot],
        "workspaces": [sorted(running.files) for running in world.home.pods.values()],
    }


def _settled(document: dict[str, Any]) -> dict[str, Any]:
    status = document.get("status", {})
    kept = ("phase", "stopReason", "refusal", "recovery", "tier", "runtimeClassName", "sessions", "restarts")
    return {
        "finalizers": document["metadata"].get("finalizers"),
        **{key: status.get(key) for key in kept},
        "hasPod": bool(status.get("podName")),
        "hasSnapshot": bool(status.get("snapshot")),
        "conditions": [(each["type"], each["status"], each["reason"]) for each in status.get("conditions", ())],
    }


def each_call(count: int, *kinds: Kind) -> Iterator[Faults]:
    """A fault of each kind at each call."""
    for number in range(count):
        for kind in kinds:
            yield Faults({number: kind})


async def sweep(story: Story, *kinds: Kind) -> tuple[int, int]:
    """Play the story with a fault at every call; how many calls it has, and how many faults came."""
    undisturbed = await played(story)
    expected, count = ending(undisturbed), undisturbed.writes()
    happened = 0
    for faults in each_call(count, *kinds):
        try:
            world = await played(story, faults)
        except AssertionError as error:
            raise AssertionError(f"story {story.name}, {faults.raised or faults.at}: {error}") from error
        happened += len(world.faults.raised)
        assert ending(world) == expected, f"story {story.name}, {world.faults.raised}"
    return count, happened


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_an_operator_that_dies_at_any_call_is_continued_by_the_next(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, cuts = await sweep(story, Kind.CUT_BEFORE, Kind.CUT_AFTER)
    with capsys.disabled():
        print(f"\n{story.name}: {calls} writes and orders, {cuts} cuts", end=" ")  # noqa: T201 - how much was covered
    assert cuts == 2 * calls
    assert cuts >= FEWEST_CUTS or story.name == "delete_at_once"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_refused_or_lost_answer_to_any_call_is_made_good(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = (Kind.CONFLICT, Kind.SERVER_ERROR, Kind.TOO_MANY, Kind.DROPPED_ANSWER)
    calls, faults = await sweep(story, *kinds)
    with capsys.disabled():
        print(f"\n{story.name}: {calls} writes and orders, {faults} faults", end=" ")  # noqa: T201 - how much was covered
    assert faults == len(kinds) * calls


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
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
async def test_a_watch_that_lags_or_loses_events_only_takes_longer(story: Story, watch: WatchPolicy) -> None:
    expected = ending(await played(story))
    assert ending(await played(story, None, watch)) == expected
