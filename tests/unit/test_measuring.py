"""What whole stories leave in the metrics: each start, stop, refusal and archive once; nobody's names in any label."""

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

from sandhold import metrics
from sandhold.cluster.apply import Outcome
from sandhold.cluster.kinds import RESOURCES, SESSION
from sandhold.desired.plan import Plan
from sandhold.desired.world import ABSENT
from sandhold.measuring import Measured
from testkit import stories, worlds
from testkit.clock import START
from testkit.small_world import NAMESPACE, SmallWorld

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples() -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name.startswith("sandhold_")
    }


class Tally:
    """What was counted since it was made."""

    def __init__(self) -> None:
        self._before = samples()

    def of(self, name: str, **labels: str) -> float:
        wanted = (name, tuple(sorted(labels.items())))
        return samples().get(wanted, 0) - self._before.get(wanted, 0)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def world() -> Iterator[SmallWorld]:
    made = SmallWorld()
    yield made
    if made.operator is not None:
        made.operator.end()


STAGES = ("post", "home", "gate", "total")


async def test_a_start_and_a_stop_are_measured_once_with_all_their_stages(world: SmallWorld, tally: Tally) -> None:
    await stories.stop(world)
    for stage in STAGES:
        assert tally.of("sandhold_session_start_seconds_count", stage=stage, tier="gvisor") == 1, stage
    parts = [tally.of("sandhold_session_start_seconds_sum", stage=stage, tier="gvisor") for stage in STAGES]
    assert parts[3] == pytest.approx(sum(parts[:3]), abs=1e-6)
    assert 0 <= parts[0] < parts[3]
    assert tally.of("sandhold_session_starts_total", tier="gvisor", recovery="Initialized") == 1
    for stage in ("archived", "gone"):
        assert tally.of("sandhold_session_stop_seconds_count", stage=stage, tier="gvisor") == 1, stage
    archived, gone = (
        tally.of("sandhold_session_stop_seconds_sum", stage=stage, tier="gvisor") for stage in ("archived", "gone")
    )
    assert 0 < archived < gone
    assert tally.of("sandhold_archives_total", outcome="final") == 1
    assert tally.of("sandhold_archived_bytes_total", what="stored") > 0
    for phase in ("Starting", "Ready", "Stopping", "Suspended"):
        assert tally.of("sandhold_session_transitions_total", phase=phase) == 1, phase
    assert tally.of("sandhold_restored_bytes_total", what="content") == 0


async def test_a_resumed_session_is_a_start_of_its_own_and_its_restore_is_counted(
    world: SmallWorld, tally: Tally
) -> None:
    await stories.resume(world)
    assert tally.of("sandhold_session_start_seconds_count", stage="total", tier="gvisor") == 2
    assert tally.of("sandhold_session_starts_total", tier="gvisor", recovery="Restored") == 1
    assert tally.of("sandhold_restored_bytes_total", what="content") > 0
    assert tally.of("sandhold_archives_total", outcome="final") == 2


async def test_a_deleted_session_is_a_stop_too(world: SmallWorld, tally: Tally) -> None:
    await stories.delete(world)
    assert tally.of("sandhold_session_stop_seconds_count", stage="gone", tier="gvisor") == 1
    assert tally.of("sandhold_archives_total", outcome="final") == 1


async def test_checkpoints_are_counted_apart_and_an_unchanged_workspace_makes_none(
    world: SmallWorld, tally: Tally
) -> None:
    await stories.start(world)
    await world.rest(700)
    assert tally.of("sandhold_archives_total", outcome="checkpoint") == 1
    world.home.write_file(stories.uid(world), "second")
    await world.rest(700)
    assert tally.of("sandhold_archives_total", outcome="checkpoint") == 2
    assert tally.of("sandhold_session_start_seconds_count", stage="total", tier="gvisor") == 1
    await stories.suspend(world)
    assert tally.of("sandhold_archives_total", outcome="checkpoint") == 2
    assert tally.of("sandhold_archives_total", outcome="final") == 1


async def test_a_stop_that_waits_for_its_store_takes_as_long_as_it_took(world: SmallWorld, tally: Tally) -> None:
    await stories.store_down_at_stop(world)
    assert tally.of("sandhold_session_stop_seconds_count", stage="archived", tier="gvisor") == 1
    assert tally.of("sandhold_session_stop_seconds_sum", stage="archived", tier="gvisor") > 10


async def test_a_stop_that_another_process_began_is_measured_from_its_beginning(
    world: SmallWorld, tally: Tally
) -> None:
    await stories.start(world)
    world.home.behaviour.store_is_down = True
    world.set_mode(stories.SESSION, "Suspended")
    await world.run_until(lambda: world.phase(stories.SESSION) == "Stopping")
    await world.rest(120)
    world._kill()
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: world.phase(stories.SESSION) == "Suspended" and not world.has_pods())
    assert tally.of("sandhold_session_stop_seconds_sum", stage="gone", tier="gvisor") > 119


async def test_a_refusal_is_counted_when_it_begins_and_not_in_every_pass(world: SmallWorld, tally: Tally) -> None:
    await stories.refused_by_walls(world)
    await world.rest(600)
    counted = {
        labels: value - tally._before.get((name, labels), 0)
        for (name, labels), value in samples().items()
        if name == "sandhold_refusals_total"
    }
    code = stories.refusal(world)
    assert {labels: value for labels, value in counted.items() if value} == {(("code", code), ("kind", SESSION)): 1}


async def test_a_refusal_that_is_only_said_again_is_not_counted_again(world: SmallWorld, tally: Tally) -> None:
    for kind, name, spec in (
        ("SandboxSession", "lonely", {"sandboxRef": {"name": "nowhere"}}),
        ("AgentSandbox", "odd", {**stories.SPEC, "tier": "nowhere"}),
    ):
        world.create(kind, name, spec)
    await world.rest(60)

    def counts() -> list[float]:
        wanted = (("SandboxSession", "sandbox_unavailable"), ("AgentSandbox", "tier_unknown"))
        return [tally.of("sandhold_refusals_total", kind=kind, code=code) for kind, code in wanted]

    assert counts() == [1, 1]
    world.change("SandboxSession", "lonely", lambda each: each["spec"].update(ttlSeconds=500))
    world.change("AgentSandbox", "odd", lambda each: each["spec"].update(command=["/bin/other"]))
    await world.rest(60)
    session = world.session("lonely")
    assert session is not None
    assert session["status"]["observedGeneration"] == session["metadata"]["generation"], "the status was written again"
    assert counts() == [1, 1]


async def test_what_a_new_session_of_the_same_name_restores_is_no_archive_that_it_made(
    world: SmallWorld, tally: Tally
) -> None:
    await stories.delete(world)
    world.create("SandboxSession", stories.SESSION, {"sandboxRef": {"name": stories.SANDBOX}})
    await world.run_until(lambda: world.phase(stories.SESSION) == "Ready")
    assert tally.of("sandhold_session_starts_total", tier="gvisor", recovery="Restored") == 1
    assert tally.of("sandhold_archives_total", outcome="final") == 1
    assert tally.of("sandhold_archives_total", outcome="checkpoint") == 0


async def test_a_start_that_waited_in_the_queue_waited_for_its_session(tally: Tally) -> None:
    now = [1000.0]
    measured = Measured(lambda: now[0])
    world = SimpleNamespace(
        now=START,
        session=worlds.a_session(),
        keepers={},
        history=ABSENT,
        installation=worlds.an_installation(),
    )
    posted = Outcome(wrote_status=True, posted_at=1000.5, seen_to_post_ms=7500)
    measured.session(world, Plan(status={"phase": "Starting"}), posted, 1000.0)  # type: ignore[arg-type]
    assert tally.of("sandhold_session_start_seconds_sum", stage="post", tier="other") == 7.5


async def test_a_lost_pod_is_counted(world: SmallWorld, tally: Tally) -> None:
    await stories.pod_lost(world)
    assert tally.of("sandhold_session_pods_lost_total") == 1
    assert tally.of("sandhold_session_starts_total", tier="gvisor", recovery="Initialized") >= 1


BOUNDED = {
    "kind": set(RESOURCES),
    "tier": {"gvisor", "runc", "other"},
    "stage": {*STAGES, "archived", "gone"},
    "recovery": {"Initialized", "Restored", "Repaired", "Reused"},
    "phase": {"Starting", "Ready", "Stopping", "Suspended", "Finished", "Failed", "None"},
}


async def test_no_label_holds_anybodys_name(world: SmallWorld) -> None:
    await stories.resume(world)
    await stories.foreign_pod(SmallWorld())
    names = [stories.SESSION, stories.SANDBOX, NAMESPACE, stories.uid(world)]
    for name, labels in samples():
        for label, value in labels:
            assert label in metrics.LABELS or label == "le", f"{name} has the undescribed label {label}"
            assert not [each for each in names if each in value], f"{name}{labels}"
            assert value in BOUNDED.get(label, {value}), f"{name}{labels}"
            assert len(value) < 64


def declared() -> list[tuple[str, str, str]]:
    return [
        (each._name, each._type, each._documentation)
        for each in vars(metrics).values()
        if hasattr(each, "_documentation")
    ]


@pytest.mark.parametrize(("name", "kind", "text"), declared())
def test_every_metric_has_its_unit_and_a_sentence(name: str, kind: str, text: str) -> None:
    assert re.fullmatch(r"sandhold_[a-z_]+", name)
    assert text.endswith(".")
    if kind == "histogram":
        assert name.endswith("_seconds")
    if "_bytes" in name:
        assert name.endswith("_bytes")
    if "time" in text.lower().split() and kind == "gauge":
        assert name.endswith(("_seconds", "_queue_delayed"))
