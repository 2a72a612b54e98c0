"""The stories that a crash sweep plays: what people do, and where the world must be after each of their acts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sandhold.names import ANNOTATION_DISCARD, ANNOTATION_RETRY, pod_name
from testkit.object_store import reference_to
from testkit.small_world import NAMESPACE, SmallWorld

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

    def __str__(self) -> str:
        return self.name


def uid(world: SmallWorld) -> str:
    """UID of the session."""
    session = world.session(SESSION)
    assert session is not None
    found: str = session["metadata"]["uid"]
    return found


def refusal(world: SmallWorld) -> str | None:
    """The code by which the session was refused."""
    session = world.session(SESSION)
    code: str | None = ((session or {}).get("status", {}).get("refusal") or {}).get("code")
    return code


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
    """Suspend, run again with all files, and suspend once more."""
    await stop(world)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert "first" in world.home.pod_of(uid(world)).files
    world.home.write_file(uid(world), "second")
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
    await world.rest(20)
    assert set(world.home.pods) == before, "the same pod stays, and no other one comes"
    assert world.phase(SESSION) == "Stopping"
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())


async def movers_away_at_stop(world: SmallWorld) -> None:
    """All movers are away when a session stops, and come back."""
    await start(world)
    world.home.movers_come_or_go(away=True)
    before = set(world.home.pods)
    world.set_mode(SESSION, "Suspended")
    await world.run_until(lambda: world.phase(SESSION) == "Stopping")
    await world.rest(40)
    assert set(world.home.pods) == before, "the same pod stays, and no other one comes"
    world.home.movers_come_or_go(away=False)
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods())


async def store_down_at_start(world: SmallWorld) -> None:
    """The store is away when a session starts: no pod, and never an empty workspace; it goes on by itself."""
    await stop(world)
    world.home.behaviour.store_is_down = True
    world.set_mode(SESSION, "Running")
    await world.rest(20)
    assert not any(keeper.was_opened for keeper in world.home.pods.values())
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert "first" in world.home.pod_of(uid(world)).files


async def agent_ignores_the_end(world: SmallWorld) -> None:
    """SIGTERM is ignored: init ends the agent after its grace, and the archive comes after that."""
    await start(world)
    world.home.behaviour.agent_obeys = False
    await suspend(world)


async def nobody_says_that_the_agent_ended(world: SmallWorld) -> None:
    """The agent spoils init's hints: it is archived its grace after it was told to end, and the pod goes."""
    world.home.behaviour.init_is_mute = True
    await start(world)
    await suspend(world)


async def verdict_is_lost(world: SmallWorld) -> None:
    """The archive is stored, and its keeper never hears of it: the store is asked, and nothing is made twice."""
    await start(world)
    world.home.behaviour.verdicts_lost = 1
    await suspend(world)


async def discarded(world: SmallWorld) -> None:
    """The store is down, and a person says that the workspace may go."""
    await start(world)
    world.home.behaviour.store_is_down = True
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: world.phase(SESSION) == "Stopping")
    world.home.excuse(uid(world))
    note = {ANNOTATION_DISCARD: "true"}
    world.change("SandboxSession", SESSION, lambda each: each["metadata"].update(annotations=note))
    await world.run_until(lambda: world.session(SESSION) is None and not world.has_pods())


async def keeps_nothing(world: SmallWorld) -> None:
    """An AgentSandbox without archives: a stop ends the pod, and the next start is a new one."""
    world.home.behaviour.keeps_archives = False
    await start(world, snapshot={"onStop": False})
    await suspend(world)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert not world.home.pod_of(uid(world)).files


async def archives_are_turned_off(world: SmallWorld) -> None:
    """A suspended session's AgentSandbox keeps no archives any more: the next start still begins with the last one."""
    await stop(world)
    world.home.behaviour.keeps_archives = False
    world.change("AgentSandbox", SANDBOX, lambda each: each["spec"].update(snapshot={"onStop": False}))
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    assert "first" in world.home.pod_of(uid(world)).files
    await suspend(world)


async def sandbox_comes_later(world: SmallWorld) -> None:
    """A session names an AgentSandbox that is not there; it starts by itself when it is."""
    world.create("SandboxSession", SESSION, {"sandboxRef": {"name": SANDBOX}})
    await world.run_until(lambda: refusal(world) == "sandbox_unavailable")
    world.create("AgentSandbox", SANDBOX, SPEC)
    await world.run_until(lambda: world.phase(SESSION) == "Ready")


async def foreign_pod(world: SmallWorld) -> None:
    """A pod that is not ours has our name: reported, never touched; when it is gone, the session goes on."""
    await stop(world)
    theirs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": pod_name(SESSION, uid(world), 2)},
        "spec": {"containers": [{"name": "their", "image": "their:1"}]},
    }
    made = world.cluster.objects.create(theirs)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: refusal(world) == "foreign_object")
    await world.rest(30)
    assert world.cluster.objects.look(reference_to(theirs)) == made
    world.cluster.objects.delete(reference_to(theirs))
    await world.run_until(lambda: world.phase(SESSION) == "Ready")


async def retried(world: SmallWorld) -> None:
    """A start that failed is tried again by a new value of the annotation."""
    await refused_by_walls(world)
    world.home.behaviour.probes.clear()
    note = {ANNOTATION_RETRY: "again"}
    world.change("SandboxSession", SESSION, lambda each: each["metadata"].update(annotations=note))
    await world.run_until(lambda: world.phase(SESSION) == "Ready")


async def pod_deleted_by_hand(world: SmallWorld) -> None:
    """Somebody deletes the pod of a running session: its keeper archives by itself, and another pod goes on."""
    await start(world)
    keeper = world.home.pod_of(uid(world))
    await world.run_until(lambda: keeper.report.kept is not None and keeper.report.kept.final > 0)
    world.cluster.objects.delete(reference_to(keeper.pod))
    await world.run_until(lambda: keeper.uid not in world.home.pods)
    await world.run_until(lambda: world.phase(SESSION) == "Ready" and world.has_pods() and _is_open_again(world))
    assert "first" in world.home.pod_of(uid(world)).files


async def pod_killed_by_hand(world: SmallWorld) -> None:
    """Somebody deletes the pod with hardly any grace: what was archived before counts."""
    await stop(world)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: world.phase(SESSION) == "Ready")
    keeper = world.home.excuse(uid(world))
    world.cluster.objects.delete(reference_to(keeper.pod), grace=0)
    await world.run_until(lambda: keeper.uid not in world.home.pods)
    await world.run_until(lambda: world.phase(SESSION) == "Ready" and world.has_pods() and _is_open_again(world))
    assert "first" in world.home.pod_of(uid(world)).files


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
    Story(store_down_at_start, resume),
    Story(movers_away_at_stop, store_down_at_stop),
    Story(agent_ignores_the_end, stop),
    Story(nobody_says_that_the_agent_ended, stop),
    Story(verdict_is_lost, start),
    Story(discarded, delete),
    Story(keeps_nothing, start),
    Story(archives_are_turned_off, resume, is_a_race=True),
    Story(sandbox_comes_later),
    Story(foreign_pod, resume),
    Story(retried, refused_by_walls),
    Story(pod_lost, resume),
    Story(pod_deleted_by_hand, start),
    Story(pod_killed_by_hand, resume),
    Story(sandbox_goes, start),
)
