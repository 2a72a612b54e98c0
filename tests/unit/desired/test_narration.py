"""A plan in words: a sentence for every step that a plan can have, and none that needs the code to be understood."""

import dataclasses

import pytest
import yaml

from sandhold.desired import narration
from sandhold.desired.narration import steps
from sandhold.desired.plan import Create, Delete, Event, Fence, Order, Plan, Reference, WriteStatus
from sandhold.desired.session import plan_session
from testkit import worlds
from testkit.golden import cases
from testkit.simulation import Simulation


def test_a_life_in_words() -> None:
    simulation = Simulation()
    told = []
    simulation.until("Ready")
    simulation.work = 1
    simulation.change({"operatingMode": "Suspended"})
    simulation.until("Suspended")
    for plan in simulation.plans:
        told += steps(plan, {})
    text = "\n".join(told)
    for words in (
        "Put the finalizer sandhold.dev/workspace on it",
        "Create Pod research/",
        "Have the keeper prepare a new workspace and try the walls.",
        "Have a mover write the fence of epoch 1, which starts from an empty workspace.",
        "Open the gate: the agent starts.",
        "Have the agent ended: SIGTERM, and SIGKILL after",
        "Have the keeper send the final archive of the workspace to the store.",
        "Create SandboxSnapshot research/",
        "Delete Pod research/",
        "is stored and verified.",
    ):
        assert words in text, words


def test_every_order_of_the_golden_plans_has_words() -> None:
    verbs = set()
    for case in cases():
        for call in yaml.safe_load((case / "plan.yaml").read_text()).get("calls", ()):
            verbs |= {call["order"]["verb"]} if "order" in call else set()
    assert verbs
    assert verbs <= narration._ORDERS.keys()


def test_the_order_of_the_steps_is_that_of_the_plan() -> None:
    reference = Reference("v1", "Pod", "ns", "p")
    plan = Plan(
        finalizer_add="f",
        writes=(
            Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p"}}),
            Delete(reference, "u", "it is lost", 2),
            WriteStatus(reference, {}),
        ),
        calls=(Fence("main", "slot", 3, (2, 1), "u"), Order("u", "archive", {"final": False}), Order("u", "novel")),
        events=(Event("Normal", "Archived", "Stored."),),
        finalizer_remove="f",
    )
    assert steps(plan, {}) == (
        "Put the finalizer f on it, so that it does not go before it may.",
        "Create Pod ns/p.",
        "Delete Pod ns/p with 2 s of grace, because it is lost.",
        "Write the status of Pod ns/p.",
        "Have a mover write the fence of epoch 3, which starts from archive 2-1.",
        "Have the keeper send the archive of the workspace to the store.",
        "Give the keeper the order novel.",
        "Write the Event Archived (Normal): Stored.",
        "Take the finalizer f off it, so that it may go.",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"phase": "Starting"}, "phase none becomes Starting"),
        ({"phase": "Ready"}, {"phase": "Ready", "podIP": "192.0.2.1"}, "podIP changes"),
        ({"a": 1}, {"b": 1}, "a, b change"),
        ({"observedGeneration": 1}, {"observedGeneration": 2}, "messages and generations"),
    ],
)
def test_a_status_is_told_by_what_becomes_different(
    before: dict[str, object], after: dict[str, object], said: str
) -> None:
    assert steps(Plan(status=after), before) == (f"Write status: {said}.",)


def test_a_settled_plan_has_no_steps() -> None:
    assert steps(Plan(wake_after=5), {"phase": "Ready"}) == ()


def test_no_step_is_as_long_as_a_document() -> None:
    plan = plan_session(worlds.a_world())
    assert dataclasses.replace(plan).writes == plan.writes
    assert all(len(step) < 600 for step in steps(plan, {}))
