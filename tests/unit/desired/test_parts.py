"""The small modules: conditions, what pods say, whose they are, the index, the YAML form."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from sandhold import names
from sandhold.api.meta import moment
from sandhold.desired import conditions, ownership, seen, snapshot
from sandhold.desired.conditions import no, yes
from sandhold.desired.plan import Create, Delete, Event, Fence, Order, Plan, Reference, WriteStatus, to_yaml
from sandhold.reasons import refuse
from testkit import worlds
from testkit.worlds import NOW

LATER = NOW + timedelta(seconds=30)


def test_a_transition_time_moves_with_the_status_alone() -> None:
    before = conditions.settle((), [yes("Ready", "Running", "a")], 1, NOW)
    (same,) = conditions.settle(before, [yes("Ready", "Other", "b")], 2, LATER)
    assert (same.last_transition_time, same.reason, same.observed_generation) == (NOW, "Other", 2)
    (moved,) = conditions.settle(before, [no("Ready", "Gone", "c")], 2, LATER)
    assert moved.last_transition_time == LATER


def test_conditions_stand_in_a_fixed_order_and_unsaid_ones_go() -> None:
    said = [no("Snapshotted", "A", ""), yes("Ready", "A", ""), yes("Admitted", "A", "")]
    settled = conditions.settle((), said, 1, NOW)
    assert [one.type for one in settled] == ["Ready", "Admitted", "Snapshotted"]
    assert [one.type for one in conditions.settle(settled, said[:1], 1, NOW)] == ["Snapshotted"]


def test_a_foreign_text_becomes_one_bounded_line() -> None:
    assert conditions.printable("a\x1b[31m\n\tb\x00c") == "a [31m b c"
    assert len(conditions.printable("x" * 100000)) == conditions.LONGEST_MESSAGE


def test_a_refusals_words_are_sentences() -> None:
    claim = conditions.refused("Ready", refuse("start_timeout", "It took too long"))  # type: ignore[arg-type]
    assert claim.message.startswith("It took too long. Correct")


def test_a_pod_is_ours_only_when_everything_agrees() -> None:
    session = worlds.a_session()
    assert ownership.is_pod_of(worlds.a_pod(), "demo", session)
    for spoil in (
        lambda pod: pod["metadata"]["labels"].update({names.LABEL_INSTALLATION: "other"}),
        lambda pod: pod["metadata"]["labels"].update({names.LABEL_SESSION_UID: "other"}),
        lambda pod: pod["metadata"]["labels"].pop(names.LABEL_MANAGED_BY),
        lambda pod: pod["metadata"]["annotations"].pop(names.ANNOTATION_OWNER),
        lambda pod: pod["metadata"]["annotations"].update({names.ANNOTATION_EPOCH: "2"}),
        lambda pod: pod["metadata"]["annotations"].update({names.ANNOTATION_EPOCH: "one"}),
        lambda pod: pod["metadata"]["annotations"].update({names.ANNOTATION_EPOCH: "1" * 5000}),
        lambda pod: pod["metadata"].update(name="quill"),
        lambda pod: pod["metadata"].update(namespace="elsewhere"),
        lambda pod: pod["metadata"].pop("annotations"),
        lambda pod: pod["metadata"].pop("labels"),
    ):
        pod = worlds.a_pod()
        spoil(pod)
        assert not ownership.is_pod_of(pod, "demo", session)
    assert not ownership.is_pod_of(worlds.a_pod(), "demo", worlds.a_session(uid="a-successor"))


def test_the_times_of_a_pod_that_somebody_deletes() -> None:
    pod = seen.see_pod(worlds.a_pod(terminating_for=10), worlds.a_session())
    assert pod is not None
    assert pod.deleted_for(NOW) == 10
    assert pod.overdue_for(NOW) == 10 - pod.grace_seconds
    alive = seen.see_pod(worlds.a_pod(), worlds.a_session())
    assert alive is not None
    assert (alive.deleted_for(NOW), alive.overdue_for(NOW), alive.deletion) == (0, 0, None)


@pytest.mark.parametrize("text", [None, 5, "", "yesterday", "2026-03-01T12:00:00", "2026-13-01T12:00:00Z"])
def test_what_is_no_moment_is_none(text: Any) -> None:
    assert moment(text) is None


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerNotCreated"),
        ("CrashLoopBackOff", "ContainerCrashing"),
    ],
)
def test_what_keeps_a_container_from_running_is_told_in_our_words(reason: str, told: str) -> None:
    pod = worlds.a_pod()
    waiting = {"waiting": {"reason": reason, "message": 'Back-off pulling image "x" 17 s'}}
    pod["status"]["containerStatuses"] = [{"name": "agent", "state": waiting}]
    trouble = seen.pod_trouble(pod)
    assert trouble is not None
    assert trouble.reason == told
    assert "17 s" not in trouble.message


def test_a_pod_that_no_node_takes_is_told() -> None:
    pod = worlds.a_pod()
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    trouble = seen.pod_trouble(pod)
    assert trouble is not None
    assert trouble.reason == "Unschedulable"


def test_a_healthy_and_an_empty_pod_are_no_trouble() -> None:
    assert seen.pod_trouble(worlds.a_pod()) is None
    assert seen.pod_trouble({"metadata": {}}) is None
    assert seen.keeper_since(worlds.a_pod()) == NOW - timedelta(seconds=5)
    assert seen.keeper_since({"status": {"initContainerStatuses": [{"name": "keeper", "state": {}}]}}) is None


def test_the_index_is_read_back_for_its_own_slot_and_only_when_verified() -> None:
    entry = worlds.a_snapshot(worlds.an_archive(2, 1))
    name = entry["metadata"]["name"]
    assert snapshot.entries([entry], worlds.SLOT) == {2: snapshot.Entry(name, 2, 1, is_final=True)}
    assert snapshot.entries([entry], "another-slot") == {}
    assert snapshot.entries([{**entry, "status": {**entry["status"], "phase": "Pending"}}], worlds.SLOT) == {}
    assert snapshot.entries([{**entry, "status": {}}], worlds.SLOT) == {}
    assert snapshot.entries([{**entry, "status": {**entry["status"], "epoch": "2"}}], worlds.SLOT) == {}


@pytest.mark.parametrize("said", [False, None, "true", 1])
def test_only_an_entry_that_says_so_is_of_a_final_archive(said: Any) -> None:
    entry = worlds.a_snapshot(worlds.an_archive(2, 1))
    (found,) = snapshot.entries([{**entry, "status": {**entry["status"], "final": said}}], worlds.SLOT).values()
    assert not found.is_final


def test_of_two_entries_of_an_epoch_the_newer_one_counts() -> None:
    older, newer = worlds.a_snapshot(worlds.an_archive(2, 1)), worlds.a_snapshot(worlds.an_archive(2, 3, final=False))
    for both in ([older, newer], [newer, older]):
        (found,) = snapshot.entries(both, worlds.SLOT).values()
        assert (found.sequence, found.is_final) == (3, False)


def test_an_entry_keeps_its_name_and_the_time_of_its_condition() -> None:
    first = worlds.a_snapshot(worlds.an_archive(2, 1, final=False))
    archived = snapshot.Archived("demo", worlds.SLOT, "main", worlds.an_archive(2, 2))
    later = NOW + timedelta(hours=1)
    (say,) = snapshot.snapshot_writes(worlds.a_session(), archived, later, first)
    assert isinstance(say, WriteStatus)
    assert say.reference.name == first["metadata"]["name"]
    assert say.status["conditions"] == first["status"]["conditions"]
    assert (say.status["sequence"], say.status["final"]) == (2, True)
    spoilt = {**first, "status": {"conditions": "none"}}
    (say,) = snapshot.snapshot_writes(worlds.a_session(), archived, later, spoilt)
    assert isinstance(say, WriteStatus)
    assert say.status["phase"] == "Ready"


def test_an_entry_is_owned_by_nobody_and_marked_as_ours() -> None:
    metadata = worlds.a_snapshot()["metadata"]
    assert "ownerReferences" not in metadata
    assert metadata["labels"][names.LABEL_INSTALLATION] == "demo"


def test_the_yaml_of_a_plan_has_a_fixed_order_and_no_anchors() -> None:
    reference = Reference("v1", "Pod", "research", "quill")
    shared = {"labels": ("a", "b")}
    plan = Plan(
        finalizer_add="f",
        writes=(
            Create({"kind": "Pod", "metadata": shared, "spec": shared}),
            Delete(reference, "uid", "why", 2),
            WriteStatus(reference, {"phase": "Ready"}),
        ),
        calls=(Fence("main", "slot", 2, (1, 1), "uid"), Order("uid", "end", {"graceSeconds": 1}, {"v": 1})),
        status={"phase": "Ready"},
        events=(Event("Normal", "Ready", "ü"),),
        finalizer_remove="g",
        wake_after=1.0,
    )
    text = to_yaml(plan)
    assert "&" not in text
    assert "ü" in text
    assert list(yaml.safe_load(text)) == [
        *("finalizerAdd", "writes", "calls", "status", "events", "finalizerRemove", "wakeAfter")
    ]
    assert yaml.safe_load(text)["calls"][0]["fence"]["parent"] == {"epoch": 1, "sequence": 1}
    assert to_yaml(Plan()) == "{}\n"
