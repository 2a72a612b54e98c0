"""What a keeper may say: bounded, typed, and trimmed to what is known."""

import json
from typing import Any

import pytest

from sandhold.mover.messages import Hello, Purpose, parse, parse_report
from sandhold.mover.wire import FrameError, encode_message
from testkit.reports import wire_report

HELLO = {"type": "hello", "version": 1, "purpose": "control", "token": "a.b.c"}


def test_a_hello_is_read_and_unknown_fields_are_dropped() -> None:
    assert parse(Hello, {**HELLO, "more": 1}).purpose is Purpose.CONTROL


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"version": "1"}, {"purpose": "admin"}, {"token": "no"}, {"token": "a.b.c\n"}, {"type": "x"}],
)
def test_another_hello_is_refused_by_field_and_never_by_value(change: dict[str, Any]) -> None:
    with pytest.raises(FrameError) as caught:
        parse(Hello, {**HELLO, **change})
    assert str(caught.value).startswith(f"Hello: {next(iter(change))}: ")
    assert "a.b.c\n" not in str(caught.value)


def test_a_report_keeps_what_is_known_and_loses_the_rest() -> None:
    report = json.loads(parse_report({"report": {**wire_report(), "surprise": "x" * 50_000}}))
    assert "surprise" not in report
    assert report["evidence"]["probes"] == wire_report()["evidence"]["probes"]


def test_what_a_keeper_keeps_guards_and_waits_for_is_passed_on() -> None:
    sections: dict[str, Any] = {
        "workspace": {"state": "Preparing", "code": "", "message": "", "files": 0, "bytes": 0, "waitingFor": 3},
        "archive": {"sequence": 4, "final": True, "state": "Stored", "code": "", "message": "", "files": 2, "bytes": 9},
        "kept": {"checkpoint": 1_800_000_000, "final": 0},
        "guard": {
            "level": "Full",
            "sizeBytes": 100,
            "limitBytes": 200,
            "intervalSeconds": 300,
            "usedBytes": 101,
            "frozen": True,
        },
    }
    report = json.loads(parse_report({"report": wire_report(**sections)}))
    assert {name: report[name] for name in sections} == sections


def test_what_was_not_told_yet_is_null() -> None:
    report = json.loads(parse_report({"report": wire_report()}))
    assert (report["kept"], report["guard"], report["workspace"]["waitingFor"]) == (None, None, None)


def test_the_largest_report_fits_into_a_push() -> None:
    probes = [{"name": "n" * 128, "outcome": "Refused", "milliseconds": 1} for _ in range(64)]
    text = {"version": "v" * 4096, "release": "r" * 128}
    evidence = {**wire_report()["evidence"], "probes": probes, "runtime": text}
    report = parse_report({"report": wire_report(evidence=evidence)})
    encode_message({"type": "keeper", "podUid": "u" * 128, "podName": "p" * 253, "report": json.loads(report)})


@pytest.mark.parametrize(
    "sections",
    [
        {"boot": "b" * 129},
        {"workspace": {"state": "Ready", "files": -1}},
        {"workspace": {"state": "Ready", "files": 1.5}},
        {"marker": {"slot": "s", "epoch": 10_000_000_000}},
        {"evidence": {**wire_report()["evidence"], "probes": [{"name": "x", "outcome": "Open"}]}},
        {"evidence": {**wire_report()["evidence"], "probes": [{"name": "x", "outcome": "Refused"}] * 65}},
        {"workspace": {"state": "Preparing", "waitingFor": -1}},
        {"archive": {"sequence": 1, "state": "Stored", "final": "true"}},
        {"kept": {"checkpoint": 2**63}},
        {"guard": {"level": "Panic", "sizeBytes": 1, "limitBytes": 2}},
        {"agent": {"state": "Running", "message": "\ud800"}},
        {"agent": {"state": "Running", "message": "m" * 4097}},
    ],
)
def test_what_is_out_of_bounds_is_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        parse_report({"report": wire_report(**sections)})
