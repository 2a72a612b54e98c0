"""Stories of running sessions for the crash sweep: checkpoints, full workspaces, cordoned nodes, deleted pods."""

from typing import Any

from testkit import stories
from testkit.small_world import SmallWorld
from testkit.stories import SANDBOX, SESSION, Story


def status(world: SmallWorld) -> dict[str, Any]:
    """The session's status."""
    session = world.session(SESSION)
    assert session is not None
    found: dict[str, Any] = session.get("status", {})
    return found


def told(world: SmallWorld, condition: str) -> str | None:
    """The reason of a condition of the session."""
    return next((each["reason"] for each in status(world).get("conditions", ()) if each["type"] == condition), None)


def is_running_again(world: SmallWorld, *files: str) -> bool:
    """Whether the session is Ready, in a pod whose agent runs and has these files."""
    running = [each for each in world.home.pods.values() if each.report.agent_state == "Running"]
    return world.phase(SESSION) == "Ready" and any(set(files) <= each.files for each in running)


async def checkpointed(world: SmallWorld) -> None:
    """A running workspace is archived when it changed: status names what a lost pod goes on from."""
    await stories.start(world)
    await world.run_until(lambda: (status(world).get("snapshot") or {}).get("sequence") == 1)
    assert told(world, "Snapshotted") == "Checkpointed"
    world.home.write_file(stories.uid(world), "second")
    await world.run_until(lambda: (status(world).get("snapshot") or {}).get("sequence") == 2)


async def lost_after_checkpoint(world: SmallWorld) -> None:
    """The node of a running session is gone: another pod goes on from the last checkpoint."""
    await stories.start(world)
    await world.run_until(lambda: bool(status(world).get("snapshot")))
    world.home.write_file(stories.uid(world), "never stored")
    world.home.lose_pod(stories.uid(world))
    await world.run_until(lambda: is_running_again(world, "first"))
    assert status(world)["recovery"] == "Repaired"
    await stories.suspend(world)


async def checkpoint_fails(world: SmallWorld) -> None:
    """The store is away when a checkpoint is due: the session runs on, says so, and the next one is stored."""
    await stories.start(world)
    world.home.behaviour.store_is_down = True
    await world.rest(400)
    assert world.phase(SESSION) == "Ready"
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: told(world, "Snapshotted") == "Checkpointed")


async def filled(world: SmallWorld) -> None:
    """The workspace comes near its limit: the session is archived and stopped, and says what to do."""
    await stories.start(world)
    world.home.pod_of(stories.uid(world)).fill("Full")
    await world.run_until(lambda: told(world, "WorkspaceReady") == "WorkspaceFull")
    assert world.phase(SESSION) == "Ready"
    world.home.pod_of(stories.uid(world)).fill("Critical")
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())
    assert status(world)["stopReason"] == "WorkspaceFull"


async def cordoned(world: SmallWorld) -> None:
    """The node is cordoned: the session is archived and goes on by itself on another one."""
    await stories.start(world)
    before = set(world.home.pods)
    world.cordon("node-1")
    await world.run_until(lambda: not before & set(world.home.pods) and is_running_again(world, "first"))
    assert status(world)["nodeName"] == "node-2"


async def cordoned_everywhere(world: SmallWorld) -> None:
    """No node takes pods: the session rests, archived, and goes on when one does."""
    await stories.start(world)
    world.cordon("node-2")
    world.cordon("node-1")
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())
    await world.rest(400)
    assert (world.phase(SESSION), status(world)["stopReason"]) == ("Suspended", "NodeCordoned")
    world.cordon("node-1", is_cordoned=False)
    await world.run_until(lambda: is_running_again(world, "first"))


async def archives_are_turned_off_in_mid_run(world: SmallWorld) -> None:
    """onStop is turned off while the session runs: what it did is archived all the same."""
    await stories.start(world)
    off = {"onStop": False}
    world.change("AgentSandbox", SANDBOX, lambda each: each["spec"].update(snapshot=off))
    await stories.suspend(world)
    assert world.home.store.has_final_archive(status(world)["slot"]["key"], 1)


RUNNING_STORIES = (
    Story(checkpointed, stories.start),
    Story(lost_after_checkpoint, checkpointed),
    Story(checkpoint_fails, stories.start),
    Story(filled, stories.start),
    Story(cordoned, stories.start),
    Story(cordoned_everywhere, cordoned, is_a_race=True),
    Story(archives_are_turned_off_in_mid_run, stories.start),
)
