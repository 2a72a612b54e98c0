"""Verdicts on what a keeper saw."""

from dataclasses import replace

import pytest

from sandhold.desired.evidence import judge, probes
from sandhold.desired.runtime import Runtime, banner_fits, runtime_of
from sandhold.desired.world import ABSENT, Evidence, Present, ProbeOutcome, Unknown
from sandhold.reasons import RefusalCode
from testkit import worlds


def verdict(evidence: Evidence, expected: Runtime = Runtime.GVISOR) -> str | None:
    found = judge(evidence, expected)
    return "unknown" if isinstance(found, Unknown) else None if found is None else found.code


def test_a_round_in_which_everything_holds_passes() -> None:
    assert verdict(worlds.some_evidence()) is None
    assert verdict(worlds.some_evidence(version=worlds.RUNC), Runtime.SHARED_KERNEL) is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (worlds.RUNC, Runtime.GVISOR),
        (worlds.GVISOR, Runtime.SHARED_KERNEL),
        ("", Runtime.GVISOR),
        ("  \n", Runtime.SHARED_KERNEL),
    ],
)
def test_a_banner_that_does_not_fit_or_is_missing_is_no_proof(version: str, expected: Runtime) -> None:
    assert verdict(worlds.some_evidence(version=version), expected) == RefusalCode.RUNTIME_CLASS_MISMATCH


@pytest.mark.parametrize("outcome", ["Refused", "TimedOut"])
def test_both_ways_in_which_walls_answer_are_walls(outcome: str) -> None:
    assert verdict(worlds.some_evidence(canary=outcome, metadata=outcome, api_service=outcome)) is None


def test_a_canary_that_answers_means_that_nothing_enforces_the_policy() -> None:
    assert verdict(worlds.some_evidence(canary="Connected")) == RefusalCode.EGRESS_CNI_NOT_ENFORCED


@pytest.mark.parametrize("name", ["metadata", "api_service", "api_endpoint_1"])
def test_anything_else_that_answers_is_a_hole(name: str) -> None:
    assert verdict(worlds.some_evidence(**{name: "Connected"})) == RefusalCode.EGRESS_NOT_DENY_DEFAULT


@pytest.mark.parametrize("canary", ["Refused", "TimedOut", "Failed"])
@pytest.mark.parametrize("mover", ["Refused", "TimedOut", "Failed", "Unheard of"])
def test_a_silent_canary_proves_nothing_unless_its_mover_answers_elsewhere(canary: str, mover: str) -> None:
    assert verdict(worlds.some_evidence(canary=canary, mover=mover)) == "unknown"
    assert verdict(worlds.some_evidence(canary=canary, mover=mover, api_service="Connected")) == "unknown"


def test_a_canary_that_answers_needs_no_other_proof() -> None:
    assert verdict(worlds.some_evidence(canary="Connected", mover="TimedOut")) == RefusalCode.EGRESS_CNI_NOT_ENFORCED


def test_the_mover_told_twice_counts_at_its_worst() -> None:
    whole = worlds.some_evidence()
    assert verdict(replace(whole, probes=(*whole.probes, ProbeOutcome("mover", "TimedOut")))) == "unknown"


def test_a_canary_that_failed_otherwise_is_no_verdict() -> None:
    assert verdict(worlds.some_evidence(canary="Failed")) == RefusalCode.EGRESS_PROBE_UNAVAILABLE
    assert verdict(worlds.some_evidence(metadata="Failed")) is None
    assert verdict(worlds.some_evidence(metadata="Unheard of")) == RefusalCode.EGRESS_PROBE_UNAVAILABLE


@pytest.mark.parametrize("name", worlds.PROBES)
def test_a_missing_outcome_is_no_verdict(name: str) -> None:
    whole = worlds.some_evidence()
    partial = replace(whole, probes=tuple(probe for probe in whole.probes if probe.name != name))
    # One that was never asked for the mover (an operator of an older version ordered it) is asked now.
    assert verdict(partial) == ("unknown" if name == "mover" else RefusalCode.EGRESS_PROBE_UNAVAILABLE)
    assert verdict(replace(whole, probes=())) == RefusalCode.EGRESS_PROBE_UNAVAILABLE


def test_an_outcome_told_twice_counts_at_its_worst() -> None:
    whole = worlds.some_evidence()
    twice = replace(whole, probes=(*whole.probes, ProbeOutcome("metadata", "Connected")))
    assert verdict(twice) == RefusalCode.EGRESS_NOT_DENY_DEFAULT


def test_a_further_endpoint_that_answers_counts_although_nobody_requires_it() -> None:
    whole = worlds.some_evidence()
    more = replace(whole, probes=(*whole.probes, ProbeOutcome("api-endpoint-2", "Connected")))
    assert verdict(more) == RefusalCode.EGRESS_NOT_DENY_DEFAULT


def test_the_canary_is_probed_first_with_its_mover_and_few_endpoints_are() -> None:
    endpoints = tuple((f"172.31.0.{number}", 6443) for number in range(10, 20))
    found = probes(worlds.an_installation(api_server=Present((("10.96.0.1", 443), *endpoints))))
    assert not isinstance(found, Unknown)
    assert [probe.name for probe in found] == [
        *("canary", "mover", "metadata", "api-service"),
        *("api-endpoint-1", "api-endpoint-2", "api-endpoint-3"),
    ]
    assert (found[0].port, found[1].port, found[0].address) == (7445, 7443, found[1].address)
    assert (found[2].address, found[2].port) == ("169.254.169.254", 80)


@pytest.mark.parametrize(
    "facts",
    [
        {"mover_canary": ABSENT},
        {"mover_canary": Unknown("no answer")},
        {"api_server": ABSENT},
        {"api_server": Unknown("no answer")},
        {"api_server": Present((("10.96.0.1", 443),))},
    ],
)
def test_without_all_addresses_there_are_no_probes(facts: dict[str, object]) -> None:
    assert isinstance(probes(worlds.an_installation(**facts)), Unknown)


def test_a_handler_that_cannot_be_told_apart_is_of_no_kind() -> None:
    assert runtime_of("runsc") is runtime_of("runsc-debug") is Runtime.GVISOR
    assert runtime_of("runc") is runtime_of("crun") is Runtime.SHARED_KERNEL
    assert runtime_of("kata-qemu") is runtime_of("") is runtime_of("wasm") is None


def test_case_does_not_matter_in_a_banner() -> None:
    assert banner_fits(Runtime.GVISOR, "Linux version 4.4.0 gVisor")
