"""Where a session is, in words, from its object and the operator's answer; every state has its sentence."""

import re
from typing import Any

import pytest

from sandhold.cli import planning
from sandhold.cli.explaining import Told, advice, explain_sandbox, explain_session, recovery
from sandhold.cli.shapes import ExplanationShape
from testkit import statuses
from testkit.statuses import condition

ALONE = Told(None, "the operator could not be asked")
ON_THE_WAY: dict[str, Any] = {
    "sandbox": "present",
    "networkPolicy": "present",
    "pods": ["quill-1"],
    "keepers": {"u": {"connected": True, "workspace": "Ready", "gateOpen": True}},
    "store": "no archive",
}


def a_session(status: dict[str, Any] | None = None, mode: str = "Running", **metadata: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "metadata": {"namespace": "demo", "name": "quill", "uid": "u", **metadata},
        "spec": {"sandboxRef": {"name": "coder"}, "operatingMode": mode},
    }
    return document if status is None else {**document, "status": status}


def test_one_that_runs_waits_for_nothing_and_ends_by_its_limit() -> None:
    shape = explain_session(a_session(statuses.ready()), None, Told({"steps": [], "observed": {}}))
    assert (shape.phase, shape.waits_for, shape.conditions, shape.next_steps) == ("Ready", None, [], [])
    assert shape.source == "operator"
    assert [(each.limit, each.at) for each in shape.limits] == [("ttlSeconds", "2099-01-01T00:00:00Z")]
    assert recovery(shape) == "archive 2-1 (SandboxSnapshot quill-0000000000-2)"
    assert advice(shape) is None


def test_one_that_nobody_looked_at() -> None:
    shape = explain_session(a_session(), None, ALONE)
    assert shape.summary == "The operator has not looked at it yet."
    assert (shape.source, shape.next_steps, shape.note) == ("status", None, "the operator could not be asked")
    assert recovery(shape) == "none yet: no archive of the workspace exists"


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        ({}, "the operator"),
        ({**ON_THE_WAY, "sandbox": "absent"}, "its AgentSandbox (absent)"),
        ({**ON_THE_WAY, "networkPolicy": "unknown: x"}, "the NetworkPolicy of its AgentSandbox (unknown: x)"),
        ({**ON_THE_WAY, "pods": "unknown: y"}, "its pods to be read (unknown: y)"),
        ({**ON_THE_WAY, "pods": []}, "its pod to be created; the store says: no archive"),
        ({**ON_THE_WAY, "keepers": {}}, "the keeper of its pod to call home"),
        ({**ON_THE_WAY, "keepers": {"u": {"connected": False}}}, "the keeper of its pod to call home"),
        (
            {**ON_THE_WAY, "keepers": {"u": {"connected": True, "workspace": "Preparing"}}},
            "the workspace to be prepared (it is Preparing)",
        ),
        (
            {**ON_THE_WAY, "keepers": {"u": {"connected": True, "workspace": "Ready", "gateOpen": False}}},
            "evidence that the walls hold and the runtime is the promised one",
        ),
        (ON_THE_WAY, "the operator"),
        ({"sandbox": "present", "networkPolicy": "present", "pods": ["p"], "keepers": "odd"}, "the keeper of its pod"),
    ],
)
def test_how_far_a_start_is(observed: dict[str, Any], said: str) -> None:
    shape = explain_session(a_session(statuses.starting()), None, Told({"steps": [], "observed": observed}))
    assert shape.waits_for is not None
    assert shape.waits_for.startswith(said)
    assert [each.limit for each in shape.limits] == ["lifecycle.startTimeoutSeconds"]
    assert [one.type for one in shape.conditions] == ["Ready", "Reconciling", "PodReady"]


def test_a_trouble_of_a_start_is_what_it_waits_for() -> None:
    status = statuses.starting()
    status["conditions"][0] = condition("Ready", "False", "ImagePullFailed", "The image x cannot be pulled.")
    shape = explain_session(a_session(status), None, Told({"steps": [], "observed": ON_THE_WAY}))
    assert shape.waits_for == "The image x cannot be pulled."


def test_a_refusal_says_what_it_means_and_what_to_do() -> None:
    shape = explain_session(a_session(statuses.refused(1)), None, ALONE)
    assert shape.refusal is not None
    assert shape.refusal.meaning is not None
    assert shape.refusal.meaning.startswith("The AgentSandbox that the session names does not exist")
    assert advice(shape) == "Create the AgentSandbox."
    assert shape.summary.startswith("It was not started, and is tried again by itself")


def test_a_code_of_a_later_version_is_shown_without_its_meaning() -> None:
    refusal = {"code": "of_the_future", "message": "m", "action": "a"}
    shape = explain_session(a_session(statuses.refused(1, refusal=refusal)), None, ALONE)
    assert shape.refusal is not None
    assert (shape.refusal.meaning, shape.refusal.action) == (None, "a")


def test_a_stop_tells_what_holds_it_up_and_when_it_stalls() -> None:
    sandbox = {"spec": {"lifecycle": {"stopTimeoutSeconds": 60}}}
    shape = explain_session(a_session(statuses.stopping(2, "The bucket is away."), "Suspended"), sandbox, ALONE)
    assert shape.waits_for == "The bucket is away."
    assert [(each.limit, each.at) for each in shape.limits] == [
        ("lifecycle.stopTimeoutSeconds", "2026-11-30T10:01:00Z")
    ]
    assert "nothing is discarded" in shape.limits[0].then


@pytest.mark.parametrize(("mode", "todo"), [("Running", "sandhold session resume quill -n demo"), ("Suspended", None)])
def test_one_at_rest_is_resumed_by_a_person_where_its_spec_says_running(mode: str, todo: str | None) -> None:
    shape = explain_session(a_session(statuses.at_rest(1, "TtlExpired"), mode), None, ALONE)
    assert advice(shape) == todo
    assert (shape.waits_for, shape.conditions, shape.limits) == (None, [], [])


def test_a_lost_workspace_is_not_as_wished() -> None:
    status = statuses.at_rest(1)
    status["conditions"][-1] = condition("Snapshotted", "False", "PodLost", "The pod was gone before.")
    shape = explain_session(a_session(status, "Suspended"), None, ALONE)
    assert [one.type for one in shape.conditions] == ["Snapshotted"]


@pytest.mark.parametrize("status", [statuses.ready(), statuses.at_rest(1)], ids=["Ready", "Suspended"])
def test_an_archive_without_its_entry_is_told_although_it_is_stored(status: dict[str, Any]) -> None:
    others = [one for one in status["conditions"] if one["type"] != "Snapshotted"]
    status["conditions"] = [*others, condition("Snapshotted", "True", "Unrecorded", "A quota is in the way.")]
    shape = explain_session(a_session(status, "Suspended"), None, ALONE)
    assert [(one.type, one.reason) for one in shape.conditions] == [("Snapshotted", "Unrecorded")]


def test_one_that_was_deleted() -> None:
    shape = explain_session(a_session(statuses.stopping(1), deletionTimestamp=statuses.SINCE), None, ALONE)
    assert shape.wished == "Deleted"


def test_a_sandbox() -> None:
    document: dict[str, Any] = {"metadata": {"namespace": "demo", "name": "coder"}}
    assert explain_sandbox(document, ALONE).summary == "The operator has not looked at it yet."
    document["status"] = {
        "conditions": [condition("Ready", "True", "Accepted"), condition("Stalled", "False", "Settled")]
    }
    shape = explain_sandbox(document, ALONE)
    assert (shape.summary, shape.waits_for, shape.conditions) == ("It takes sessions.", None, [])
    document["status"] = {
        "conditions": [
            condition("Ready", "False", "TierUnknown", "No tier x."),
            condition("Stalled", "True", "TierUnknown"),
        ]
    }
    shape = explain_sandbox(document, ALONE)
    assert shape.waits_for == "No tier x."
    assert [one.type for one in shape.conditions] == ["Ready", "Stalled"]


LONG = "store main of AgentSandbox coder does not answer: the bucket workspaces is away. It is tried again."


def text_of(shape: ExplanationShape, capsys: pytest.CaptureFixture[str]) -> str:
    planning._explanation_text(shape)
    return capsys.readouterr().out


def test_one_cause_of_several_conditions_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    status = statuses.starting()
    for name in ("EgressVerified", "WorkspaceReady"):
        status["conditions"].append(condition(name, "False", "StoreAway", LONG))
    status["conditions"][0] = condition("Ready", "False", "StoreAway", LONG)
    text = text_of(explain_session(a_session(status), None, ALONE), capsys)
    assert text.count(LONG) == 1
    assert "Waits for:" in text
    for name in ("Ready", "EgressVerified", "WorkspaceReady"):
        assert re.search(rf"^  {name}: +False \(StoreAway\)$", text, re.MULTILINE), "each says its reason"


def test_a_cause_of_its_own_is_said_with_its_condition(capsys: pytest.CaptureFixture[str]) -> None:
    status = statuses.starting()
    status["conditions"][-1] = condition("PodReady", "False", "ImagePullFailed", "The image x cannot be pulled.")
    text = text_of(explain_session(a_session(status), None, ALONE), capsys)
    assert re.search(r"^  PodReady: +False \(ImagePullFailed\): The image x cannot be pulled\.$", text, re.MULTILINE)


def test_what_the_summary_says_is_not_waited_for_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    conditions = [condition(name, "False", "TierUnknown", LONG) for name in ("Ready", "WallsReady")]
    document = {"metadata": {"namespace": "demo", "name": "coder"}, "status": {"conditions": conditions}}
    shape = explain_sandbox(document, ALONE)
    text = text_of(shape, capsys)
    assert (shape.waits_for, text.count(LONG)) == (LONG, 1)
    assert "what is said above" in text


@pytest.mark.parametrize(
    "status", [None, {}, {"conditions": "odd"}, {"conditions": [1, {}]}, {"phase": 7, "snapshot": []}]
)
def test_an_odd_object_is_explained_as_far_as_it_can_be_read(status: Any) -> None:
    document = a_session(status)
    assert explain_session(document, {"spec": None}, Told({"observed": "odd"})).name == "quill"
