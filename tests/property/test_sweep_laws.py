"""The laws of a sweep over many objects at once, each spoilt in no, one or several respects."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sandhold.desired.orphans import Outcome
from sandhold.desired.sweeping import SweepLimits
from testkit.leftovers import GRACE, KINDS, Case, a_leftover, plan_of, spoilers_of

MANY = settings(max_examples=300, deadline=None, derandomize=True)
OPEN = SweepLimits(GRACE, 1.0)


@st.composite
def spoilt_cases(draw: st.DrawFn) -> list[tuple[Case, tuple[str, ...]]]:
    """Objects of any kind, each with the names of what speaks against collecting it. One object a namespace's facts."""
    kind = draw(st.sampled_from(KINDS))
    cases = []
    for number in range(draw(st.integers(1, 4))):
        case = Case(a_leftover(kind, number + 1))
        # What is read once for a namespace would be spoilt for all of them.
        own = {name: spoil for name, spoil in spoilers_of(kind).items() if not name.startswith("namespace")}
        chosen = draw(st.lists(st.sampled_from(sorted(own)), max_size=3, unique=True))
        done = []
        for name in chosen:
            try:
                own[name](case)
            except (KeyError, AssertionError):
                continue  # an earlier one took away what this one would spoil
            done.append(name)
        cases.append((case, tuple(done)))
    return cases


@given(spoilt_cases())
@MANY
def test_exactly_what_nothing_speaks_against_is_collected(cases: list[tuple[Case, tuple[str, ...]]]) -> None:
    plan = plan_of(*(case for case, _ in cases), limits=OPEN)
    collected = {each.sighting.reference.name for each in plan.collect}
    assert collected == {case.metadata["name"] for case, spoilt in cases if not spoilt}


@given(spoilt_cases())
@MANY
def test_webui_never_and_unknown_never_whatever_else(cases: list[tuple[Case, tuple[str, ...]]]) -> None:
    plan = plan_of(*(case for case, _ in cases), limits=OPEN)
    verdicts = {each.sighting.reference.name: each for each in plan.verdicts}
    for case, spoilt in cases:
        verdict = verdicts[case.metadata["name"]] if len(verdicts) == len(cases) else None
        if verdict is not None and any(name.startswith("webui") for name in spoilt):
            assert verdict.outcome is not Outcome.COLLECT
            assert not verdict.is_orphan
        if verdict is not None and any("unknown" in name for name in spoilt):
            assert verdict.outcome is not Outcome.COLLECT


@given(spoilt_cases())
@MANY
def test_equal_surveys_give_equal_plans_and_every_object_one_verdict(
    cases: list[tuple[Case, tuple[str, ...]]],
) -> None:
    objects = [case for case, _ in cases]
    first, second = plan_of(*objects, limits=OPEN), plan_of(*reversed(objects), limits=OPEN)
    assert {each.sighting.uid: each.outcome for each in first.verdicts} == {
        each.sighting.uid: each.outcome for each in second.verdicts
    }
    assert len(first.verdicts) == len(objects)


@given(spoilt_cases())
@MANY
def test_a_stopped_sweep_collects_nothing_and_forgets_nothing(cases: list[tuple[Case, tuple[str, ...]]]) -> None:
    kind = cases[0][0].document["kind"]
    crowd = [Case(a_leftover(kind, number + 100)) for number in range(12)]
    plan = plan_of(*(case for case, _ in cases), *crowd)
    assert plan.stopped is not None
    assert plan.collect == ()
    assert {case.metadata["uid"] for case in crowd} <= set(plan.seen)
