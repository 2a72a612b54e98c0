"""What a sweep collects, and everything for which it keeps an object: each condition alone is enough."""

import json
from dataclasses import replace
from typing import cast

import pytest

from sandhold import names
from sandhold.desired.orphans import OWNER_KINDS, Outcome
from sandhold.desired.sighting import labels_set_by_us, owner_in, sighting_of
from sandhold.desired.sweeping import (
    MOST_AT_ONCE,
    Seen,
    SweepLimits,
    SweepPlan,
    as_document,
    evidence,
    leave_until,
    plan_sweep,
)
from sandhold.desired.world import Keeper, Kept, Present
from sandhold.slots.key import slot_key
from testkit import worlds
from testkit.leftovers import (
    KINDS,
    LIMITS,
    MONOTONIC,
    WEBUI,
    Case,
    Spoiler,
    a_leftover,
    managed,
    plan_of,
    spoilers_of,
    survey_of,
)

EVERY_SPOILER = [(kind, name, spoil) for kind in KINDS for name, spoil in spoilers_of(kind).items()]


@pytest.mark.parametrize("kind", KINDS)
def test_an_orphan_is_collected(kind: str) -> None:
    plan = plan_of(Case(a_leftover(kind)))
    assert [each.sighting.reference.kind for each in plan.collect] == [kind]
    assert plan.stopped is None


@pytest.mark.parametrize(("kind", "name", "spoil"), EVERY_SPOILER, ids=[f"{k}-{n}" for k, n, _ in EVERY_SPOILER])
def test_one_condition_that_does_not_hold_keeps_it(kind: str, name: str, spoil: Spoiler) -> None:
    case = Case(a_leftover(kind))
    spoil(case)
    plan = plan_of(case)
    assert plan.collect == (), name
    assert plan.verdicts[0].message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", WEBUI.values(), ids=WEBUI)
def test_webui_objects_are_no_orphans_whoever_their_owner_was(kind: str, spoil: Spoiler) -> None:
    case = Case(a_leftover(kind))
    spoil(case)
    verdict = plan_of(case).verdicts[0]
    assert verdict.outcome is Outcome.WEBUI
    assert not verdict.is_orphan


def test_kinds_that_hold_archives_are_no_kinds_that_are_swept() -> None:
    assert set(OWNER_KINDS) == set(KINDS)
    snapshot = {**worlds.a_snapshot(), "kind": "SandboxSnapshot"}
    snapshot["metadata"]["managedFields"] = [managed(names.FIELD_MANAGER, *snapshot["metadata"]["labels"])]
    assert plan_of(Case(snapshot)).collect == ()


def _seen_with(keeper: Keeper) -> SweepPlan:
    survey = survey_of(Case(a_leftover()))
    (pod,) = survey.sightings
    before = {pod.uid: Case(a_leftover()).seen}
    assert before[pod.uid] is not None
    survey = replace(survey, leave_until=leave_until({pod.uid: keeper}))
    return plan_sweep(survey, cast("dict[str, Seen]", before), LIMITS, worlds.NOW, MONOTONIC)


@pytest.mark.parametrize("seconds", [-1, 0, 30, 300])
@pytest.mark.parametrize("connected", [True, False])
def test_a_pod_whose_keeper_could_not_archive_in_its_grace_is_kept(seconds: int, *, connected: bool) -> None:
    """A grant lives for a day, and nobody renews that of an orphan: a sweep that comes later would cost the work."""
    kept = Kept(0, int(worlds.NOW.timestamp()) + seconds if seconds >= 0 else 0)
    plan = _seen_with(worlds.a_keeper("Open", connected=connected, kept=kept))
    assert plan.collect == ()
    assert plan.verdicts[0].outcome is Outcome.WORK_STRANDED
    assert "kubectl cp" in plan.verdicts[0].message


@pytest.mark.parametrize(
    "keeper",
    [
        worlds.a_keeper("Open"),
        worlds.a_keeper("Open", kept=None),
        worlds.a_keeper("Ready", kept=Kept(0, 0)),
        worlds.a_keeper("Stored", kept=Kept(0, 0)),
        replace(worlds.a_keeper("Open"), report=None),
    ],
    ids=["a grant that lasts", "no archives are kept", "nobody ran in it", "archived for good", "nothing said"],
)
def test_a_pod_that_loses_nothing_is_collected(keeper: Keeper) -> None:
    assert len(_seen_with(keeper).collect) == 1


def test_another_object_under_the_owners_name_is_an_absence() -> None:
    plan = plan_of(Case(a_leftover(), owner=Present("0e550000-0000-4000-8000-00000000ffff")))
    assert len(plan.collect) == 1
    assert "0e550000-0000-4000-8000-00000000ffff" in plan.collect[0].message


def test_our_label_that_somebody_else_owns_too_is_still_ours() -> None:
    document = a_leftover()
    document["metadata"]["managedFields"].append(managed("kubectl", *document["metadata"]["labels"]))
    assert len(plan_of(Case(document)).collect) == 1


def test_the_first_sweep_only_notes_and_a_gap_begins_anew() -> None:
    case = Case(a_leftover(), seen=None)
    case.seen = None
    first = plan_of(case)
    assert first.verdicts[0].outcome is Outcome.FIRST_SEEN
    assert set(first.seen) == {case.metadata["uid"]}
    spoilt = Case(a_leftover())
    spoilers_of("Pod")["owner unknown"](spoilt)
    assert plan_of(spoilt).seen == {}, "a sweep that did not see it as an orphan breaks the row"


def test_pods_go_before_what_stands_around_them() -> None:
    plan = plan_of(*(Case(a_leftover(kind)) for kind in reversed(KINDS)))
    assert plan.collect[0].sighting.reference.kind == "Pod"
    assert len(plan.collect) == len(KINDS)


def many(orphans: int, owned: int, kind: str = "Pod") -> list[Case]:
    cases = [Case(a_leftover(kind, number + 1)) for number in range(orphans)]
    for number in range(orphans, orphans + owned):
        case = Case(a_leftover(kind, number + 1))
        case.owner = Present(str(case.labels[case.uid_label]))
        cases.append(case)
    return cases


@pytest.mark.parametrize(
    ("orphans", "owned", "share", "is_stopped"),
    [
        (5, 0, 0.2, False),
        (6, 0, 0.2, True),
        (6, 24, 0.2, False),
        (7, 24, 0.2, True),
        (6, 4, 0.5, True),
        (6, 6, 0.5, False),
        (40, 0, 1.0, False),
    ],
)
def test_the_breaker(orphans: int, owned: int, share: float, is_stopped: bool) -> None:  # noqa: FBT001 - a table
    plan = plan_of(*many(orphans, owned), limits=SweepLimits(LIMITS.grace_seconds, share))
    assert (plan.stopped is not None) is is_stopped
    assert len(plan.collect) == (0 if is_stopped else orphans)
    assert len(plan.seen) == orphans


def test_the_breaker_counts_each_kind_by_itself() -> None:
    """All walls of an installation gone would be a small share of its thousand pods."""
    assert plan_of(*many(0, 60), *many(6, 0, "NetworkPolicy")).stopped is not None


def test_the_breaker_counts_orphans_that_are_not_due_yet() -> None:
    cases = many(8, 0)
    for case in cases[1:]:
        case.seen = None
    plan = plan_of(*cases)
    assert plan.stopped is not None
    assert plan.collect == ()


def test_a_sweep_takes_only_so_many_at_once() -> None:
    plan = plan_of(*many(MOST_AT_ONCE + 3, 0), limits=SweepLimits(LIMITS.grace_seconds, 1.0))
    assert len(plan.collect) == MOST_AT_ONCE
    assert sum(each.outcome is Outcome.LATER for each in plan.verdicts) == 3


def test_a_collected_pod_says_where_its_work_is() -> None:
    said = evidence(plan_of(Case(a_leftover())).collect[0], "demo")
    slot = slot_key(installation="demo", namespace=worlds.NAMESPACE, sandbox="coder", session="quill")
    assert slot in said
    assert "SandboxSession quill of AgentSandbox coder" in said
    assert "absent" in said
    assert len(said) <= 1024, "an Event's note is cut there"


def test_the_plan_can_be_written_as_json() -> None:
    spoilt = Case(a_leftover("Pod", 1))
    spoilt.metadata["annotations"] = {}
    document = as_document(plan_of(Case(a_leftover()), spoilt))
    assert json.loads(json.dumps(document)) == document
    assert {each["outcome"] for each in document["objects"]} == {"Collect", "OwnerUnclear"}


def test_sightings_of_odd_objects_are_read_without_a_guess() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "managedFields": [{"manager": "sandhold"}]}}
    seen = sighting_of(bare)
    assert (seen.owner, seen.epoch, seen.created, seen.set_by_us) == (None, None, None, frozenset())
    odd = {"metadata": {"managedFields": [{"manager": "sandhold", "fieldsV1": {"f:metadata": {"f:labels": None}}}]}}
    assert labels_set_by_us(odd) == frozenset()
    for when in ("2026-01-01T00:00:00", "yesterday", 7, None):
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "creationTimestamp": when}}
        assert sighting_of(document).created is None, "a time without a zone is no moment"
    for text in ("", "a/b/c", "a/b/c/d/e", "a//c/d"):
        assert owner_in({"metadata": {"annotations": {names.ANNOTATION_OWNER: text}}}) is None
