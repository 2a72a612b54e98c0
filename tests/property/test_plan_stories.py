"""Settling: whatever happens to a session and whatever breaks, once all is whole again it ends where it should.

And promise one, over every such story: an orderly end loses nothing, and what is restored is what was archived.
"""

from collections.abc import Callable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from sandhold import names
from sandhold.desired.plan import Plan
from sandhold.desired.session import plan_session
from testkit.simulation import Faults, Simulation

MANY = settings(max_examples=120, deadline=None, derandomize=True)


def _fault(name: str, *, is_broken: bool) -> Callable[[Simulation], None]:
    return lambda simulation: setattr(simulation.faults, name, is_broken)


def _retry(simulation: Simulation) -> None:
    simulation.change(annotations={names.ANNOTATION_RETRY: f"{simulation.now.timestamp()}"})


def _agent_exits(simulation: Simulation) -> None:
    simulation.exit_code = 3
    simulation.pass_time(0)
    simulation.exit_code = None


HAPPENINGS: Mapping[str, Callable[[Simulation], None]] = {
    "suspend": lambda simulation: simulation.change(spec={"operatingMode": "Suspended"}),
    "resume": lambda simulation: simulation.change(spec={"operatingMode": "Running"}),
    "retry": _retry,
    "an hour": lambda simulation: simulation.pass_time(3600),
    "a moment": lambda simulation: simulation.pass_time(5),
    "init restarts": Simulation.restart_init,
    "keeper restarts": Simulation.restart_keeper,
    "agent exits": _agent_exits,
    "store down": _fault("store", is_broken=True),
    "store up": _fault("store", is_broken=False),
    "movers away": _fault("mover", is_broken=True),
    "movers back": _fault("mover", is_broken=False),
    "walls down": _fault("walls", is_broken=True),
    "walls up": _fault("walls", is_broken=False),
    "image broken": _fault("image", is_broken=True),
    "image mended": _fault("image", is_broken=False),
    "records refused": _fault("records", is_broken=True),
    "records written": _fault("records", is_broken=False),
    "agent deaf": _fault("deaf_agent", is_broken=True),
    "checkpoint": Simulation.checkpoint,
    "a day": lambda simulation: simulation.pass_time(86400),
    "workspace full": lambda simulation: simulation.fill("Full"),
    "workspace at its limit": lambda simulation: simulation.fill("Critical"),
    "workspace has room": lambda simulation: simulation.fill("Normal"),
    "cordon": Simulation.cordon,
    "uncordon": lambda simulation: simulation.cordon(is_cordoned=False),
}
LOSSES: Mapping[str, Callable[[Simulation], None]] = {
    "pod lost": Simulation.lose_pod,
    "pod evicted": Simulation.evict,
    "keeper leaves in its place": Simulation.leave_in_place,
    "somebody deletes the pod": Simulation.delete_pod,
    "node lost": Simulation.lose_node,
    "node back": Simulation.find_node,
    "archives off": lambda simulation: simulation.set_archives(on_stop=False),
    "archives on": lambda simulation: simulation.set_archives(on_stop=True),
}

orderly = st.lists(st.tuples(st.sampled_from(sorted(HAPPENINGS)), st.integers(0, 4)), max_size=12)
anything = st.lists(st.tuples(st.sampled_from(sorted({**HAPPENINGS, **LOSSES})), st.integers(0, 4)), max_size=12)


def live(story: list[tuple[str, int]]) -> Simulation:
    """What happens, with some passes after each happening."""
    simulation = Simulation()
    for name, passes in story:
        {**HAPPENINGS, **LOSSES}[name](simulation)
        for _ in range(passes):
            simulation.step()
    return simulation


def heal(simulation: Simulation) -> None:
    """All is whole again."""
    simulation.faults = Faults()
    simulation.exit_code = None
    simulation.set_archives(on_stop=True)
    simulation.find_node()
    simulation.cordon(is_cordoned=False)


@given(anything)
@MANY
def test_a_deleted_session_always_goes_and_leaves_no_pod(story: list[tuple[str, int]]) -> None:
    simulation = live(story)
    simulation.delete()
    heal(simulation)
    simulation.run(200)
    assert simulation.session is None
    assert simulation.pods == {}


@given(anything)
@MANY
def test_a_session_that_shall_rest_comes_to_rest(story: list[tuple[str, int]]) -> None:
    simulation = live(story)
    simulation.change(spec={"operatingMode": "Suspended"})
    heal(simulation)
    simulation.run(200)
    assert simulation.phase == "Suspended"
    assert simulation.pods == {}
    settles(simulation)


@given(anything)
@MANY
def test_a_session_that_shall_run_runs_after_a_retry(story: list[tuple[str, int]]) -> None:
    simulation = live(story)
    heal(simulation)
    simulation.change(spec={"operatingMode": "Running"})
    simulation.run(200)
    if simulation.phase != "Ready":
        simulation.change(annotations={names.ANNOTATION_RETRY: "all is well again"})
        simulation.run(200)
    assert simulation.phase == "Ready"
    assert len(simulation.pods) == 1
    settles(simulation)


@given(orderly)
@MANY
def test_no_work_is_lost_in_an_orderly_story(story: list[tuple[str, int]]) -> None:
    simulation = live(story)
    simulation.change(spec={"operatingMode": "Suspended"})
    heal(simulation)
    simulation.run(200)
    assert "WorkspaceLost" not in simulation.reasons()
    assert set(simulation.deleted_work) <= {content for _, content in simulation.store.values()}
    if simulation.work:
        newest = simulation.store[max(simulation.store)]
        assert newest[0].final
        assert newest[1] == simulation.work


@given(orderly)
@MANY
def test_records_that_cannot_be_written_hold_up_only_a_deletion(story: list[tuple[str, int]]) -> None:
    simulation = live(story)
    heal(simulation)
    simulation.faults.records = True
    simulation.change(spec={"operatingMode": "Suspended"})
    simulation.until("Suspended", 200)
    simulation.delete()
    for _ in range(40):
        simulation.step()
    newest = max((place for place in simulation.store if place[1]), default=None)
    named = [each["status"] for each in simulation.snapshots.values()]
    is_named = any((each.get("epoch"), each.get("sequence")) == newest for each in named)
    assert (simulation.session is None) == (newest is None or is_named)
    simulation.faults.records = False
    simulation.run(200)
    assert simulation.session is None
    assert newest is None or newest in [
        (each["status"]["epoch"], each["status"]["sequence"]) for each in simulation.snapshots.values()
    ]


def settles(simulation: Simulation) -> None:
    plan = plan_session(simulation.world())
    assert plan == Plan(wake_after=plan.wake_after)
