"""The stories that a crash sweep plays: what people do, and where the world must be after each of their acts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from testkit.small_world import SmallWorld

SANDBOX = "coder"
SESSION = "quill"
SPEC: dict[str, Any] = {
    "tier": "gvisor",
    "command": ["/bin/agent"],
    "workspace": {"entries": [{"path": "AGENTS.md", "file": {"content": "be kind\n"}}]},
}


@dataclass(frozen=True)
class Story:
    """What is played, and the story that it begins with: faults in that part are that story's business."""

    play: Callable[[SmallWorld], Awaitable[None]]
    begins_with: Callable[[SmallWorld], Awaitable[None]] | None = None
    is_a_race: bool = False
    """Whether it matters when the operator hears of what people do: late, it has gone further already."""

    @property
    def name(self) -> str:
        """How it is called."""
        return self.play.__name__


def uid(world: SmallWorld) -> str:
    """UID of the session."""
    session = world.session(SESSION)
    assert session is not None
    found: str = session["metadata"]["uid"]
    return found


async def begin(world: SmallWorld, **spec: Any) -> None:
    """A sandbox and a session are created; nothing has happened yet."""
    world.create("AgentSandbox", SANDBOX, {**SPEC, **spec})
    world.create("SandboxSession", SESSION, {"sandboxRef": {"name": SANDBOX}})


async def start(world: SmallWorld, **spec: Any) -> None:
    """A session becomes Ready, and its agent writes a file."""
    await begin(world, **spec)
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    world.home.write_file(uid(world), "first")


async def suspend(world: SmallWorld) -> None:
    """A running session is suspended, down to the last pod."""
    world.set_mode(SESSION, "Suspended")
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())


async def stop(world: SmallWorld) -> None:
    """Start, then suspend."""
    await start(world)
    await suspend(world)


async def resume(world: SmallWorld) -> None:
    """Suspend, then run again, twice: every time with all files."""
    await stop(world)
    for name in ("second", "third"):
        world.set_mode(SESSION, "Running")
        await world.run_until(lambda: world.phase(SESSION) == "Ready")
        assert "first" in world.home.pod_of(uid(world)).files
        world.home.write_file(uid(world), name)
        await suspend(world)


async def delete(world: SmallWorld) -> None:
    """A running session is deleted."""
    await start(world)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.session(SESSION) is None and not world.has_pods())


async def delete_suspended(world: SmallWorld) -> None:
    """A suspended session is deleted."""
    await stop(world)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.session(SESSION) is None)


async def delete_early(world: SmallWorld) -> None:
    """A session is deleted when its pod is there and its gate still shut."""
    await begin(world)
    await world.run_until(world.has_pods)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.session(SESSION) is None and not world.has_pods())


async def delete_at_once(world: SmallWorld) -> None:
    """A session is deleted before anybody looked at it."""
    await begin(world)
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.session(SESSION) is None and not world.has_pods())


async def expire(world: SmallWorld) -> None:
    """A session's time is over: suspended, never deleted."""
    await start(world, lifecycle={"ttlSeconds": 120})
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())


async def agent_ends(world: SmallWorld) -> None:
    """The agent exits by itself."""
    await start(world)
    world.home.pod_of(uid(world)).say(agent_state="Ended", agent_exit_code=0)
    await world.run_until(lambda: world.phase(SESSION) == "Finished" and not world.has_pods())


async def init_restarts(world: SmallWorld) -> None:
    """Init starts again under a running session: the gate opens anew, after new evidence."""
    await start(world)
    world.home.pod_of(uid(world)).restart_init()
    await world.run_until(lambda: world.phase(SESSION) != "Ready" or _is_open_again(world))
    await world.run_until(lambda: world.phase(SESSION) == "Ready" and _is_open_again(world))


def _is_open_again(world: SmallWorld) -> bool:
    return all(
        running.report.opened == running.report.challenge and running.report.agent_state == "Running"
        for running in world.home.pods.values()
    )


async def refused_by_walls(world: SmallWorld) -> None:
    """The canary could be reached: no agent, and a code that says why."""
    world.home.behaviour.probes["canary"] = "Connected"
    await begin(world)
    await world.run_until(lambda: world.phase(SESSION) == "Failed" and not world.has_pods())


async def store_down_at_stop(world: SmallWorld) -> None:
    """The store is away when a session stops: the pod stays, says why, and the archive appears when it is back."""
    await start(world)
    world.home.behaviour.store_is_down = True
    before = set(world.home.pods)
    world.set_mode(SESSION, "Suspended")
    await world.run_until(lambda: world.phase(SESSION) == "Stopping")
    await world.rest(60)
    assert set(world.home.pods) == before, "the same pod stays, and no other one comes"
    assert world.phase(SESSION) == "Stopping"
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())


async def pod_lost(world: SmallWorld) -> None:
    """The node of a running session is gone: a new pod with the last archive."""
    await stop(world)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    first = uid(world)
    world.home.lose_pod(first)
    await world.run_until(lambda: world.phase(SESSION) == "Ready" and world.has_pods() and _is_open_again(world))
    assert "first" in world.home.pod_of(first).files


async def sandbox_goes(world: SmallWorld) -> None:
    """Sandbox and session are deleted together: walls and account go last."""
    await start(world)
    world.delete("AgentSandbox", SANDBOX)
    world.delete("SandboxSession", SESSION)
    await world.run_until(
        lambda: not any(world.cluster.objects.count(kind) for kind in ("Pod", "SandboxSession", "AgentSandbox"))
    )


STORIES = (
    Story(start),
    Story(stop, start),
    Story(resume, stop),
    Story(delete, start),
    Story(delete_suspended, stop),
    Story(delete_early, start, is_a_race=True),
    Story(delete_at_once, start, is_a_race=True),
    Story(expire, start),
    Story(agent_ends, start),
    Story(init_restarts, start),
    Story(refused_by_walls, start),
    Story(store_down_at_stop, start),
    Story(pod_lost, resume),
    Story(sandbox_goes, start),
)
