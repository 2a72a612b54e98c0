"""Plays a story in the small world, and says where it ended: the same, whatever happened on its way."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar

from testkit.faults import Faults
from testkit.small_world import SmallWorld, WatchPolicy
from testkit.stories import Story

World = TypeVar("World", bound=SmallWorld)

CHECKPOINT_SECONDS = 400
"""After so long the checkpoint of a workspace that changes no more is stored and told."""
REST_SECONDS = 900

_undisturbed: dict[Story, tuple[dict[str, Any], Sequence[str]]] = {}


async def played(story: Story, faults: Faults | None = None, watch: WatchPolicy | None = None) -> SmallWorld:
    """The world after a story, at rest."""
    return await played_in(SmallWorld(faults, watch), story)


async def played_in(world: World, story: Story) -> World:
    """The same in a world that is given; whatever must never happen is asserted here."""
    try:
        await story.play(world)
        await world.rest(CHECKPOINT_SECONDS)
        writes = world.writes()
        await world.rest(REST_SECONDS)
        assert world.faults.calls[writes:] == [], f"writes at rest\n{world.describe()}"
        assert world.home.violations == [], world.describe()
    finally:
        end_of(world)
    return world


async def undisturbed(story: Story, watch: WatchPolicy | None = None) -> tuple[dict[str, Any], Sequence[str]]:
    """Where a story ends when nothing goes wrong, and its calls. Those of a perfect watch are played once and kept."""
    if watch is None and story in _undisturbed:
        expected, calls = _undisturbed[story]
        return deepcopy(expected), calls
    world = await played(story, None, watch)
    if watch is None:
        _undisturbed[story] = deepcopy(ending(world)), tuple(world.faults.calls)
    return ending(world), world.faults.calls


def end_of(world: SmallWorld) -> None:
    """Let the timers of a world go."""
    if world.operator is not None:
        world.operator.end()


def ending(world: SmallWorld) -> dict[str, Any]:
    """What must be the same at the end of a story, whatever happened on its way."""
    objects = world.cluster.objects
    # What counts of each epoch is its newest archive: how many checkpoints came before depends on how long things took.
    slots = [
        {
            epoch: (sorted(slot[epoch, number].content), slot[epoch, number].manifest.final)
            for epoch, number in sorted(slot)
            if number
        }
        for slot in world.home.store.slots.values()
    ]
    return {
        "sessions": [_settled(each) for each in objects.all("SandboxSession")],
        "sandboxes": [_settled(each) for each in objects.all("AgentSandbox")],
        "pods": [sorted(each["metadata"]["labels"]) for each in objects.all("Pod")],
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
    kept = ["phase", "stopReason", "refusal", "recovery", "tier", "runtimeClassName", "sessions"]
    if status.get("phase") != "Failed":  # how many pods it took to fail is no matter
        kept.append("restarts")
    return {
        "finalizers": document["metadata"].get("finalizers"),
        **{key: status.get(key) for key in kept},
        "hasPod": bool(status.get("podName")),
        "hasSnapshot": bool(status.get("snapshot")),
        "conditions": [(each["type"], each["status"], each["reason"]) for each in status.get("conditions", ())],
    }
