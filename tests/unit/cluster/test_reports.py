"""What a keeper may make us believe: nothing that is not of the protocol's form, and nothing without a bound."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandhold.cluster import reports
from sandhold.desired.world import Evidence, Guard, KeeperReport, Kept, Manifest, ProbeOutcome, SlotHistory
from testkit.reports import CHALLENGE, wire_report

MANIFEST = {
    "epoch": 3,
    "sequence": 1,
    "kind": "Archive",
    "final": True,
    "parent": {"epoch": 2, "sequence": 4},
    "key": "p/i/s/0000000003-0000000001",
    "digest": "ab" * 32,
    "bytes": 1,
    "storedBytes": 2,
    "files": 3,
    "createdAt": "2026-03-01T12:00:00Z",
}


def test_a_whole_report_is_read() -> None:
    assert reports.keeper_report(wire_report()) == KeeperReport(
        marker_slot="slot-1",
        marker_epoch=3,
        marker_recovery="Restored",
        marker_source=(2, 1),
        workspace_state="Ready",
        evidence=Evidence(CHALLENGE, "Linux version 4.4.0 gVisor", (ProbeOutcome("canary", "Refused"),)),
        challenge=CHALLENGE,
        agent_state="Waiting",
        archive_sequence=1,
        archive_state="Failed",
        archive_code="snapshot_store_unavailable",
        archive_message="no answer",
    )


def test_a_first_report_says_little() -> None:
    first = wire_report(
        marker=None, evidence=None, archive=None, workspace={"state": "Empty"}, gate={"challenge": "", "opened": ""}
    )
    assert reports.keeper_report(first) == KeeperReport(agent_state="Waiting")


def test_what_a_keeper_holds_and_guards_is_read() -> None:
    report = reports.keeper_report(
        wire_report(
            archive={"sequence": 7, "final": True, "state": "Stored"},
            kept={"checkpoint": 1_800_000_000, "final": 0},
            guard={
                "level": "Critical",
                "sizeBytes": 2**40,
                "limitBytes": 2**62,
                "intervalSeconds": 300,
                "usedBytes": 5,
                "frozen": True,
            },
        )
    )
    assert (report.archive_sequence, report.archive_is_final) == (7, True)
    assert report.kept == Kept(1_800_000_000, 0)
    assert report.guard == Guard("Critical", 2**40, 2**62, 300)


def test_what_was_measured_is_no_news() -> None:
    sizes = {"level": "Normal", "sizeBytes": 1, "limitBytes": 2, "intervalSeconds": 0}
    one, other = (reports.keeper_report(wire_report(guard={**sizes, "usedBytes": used})) for used in (1, 2))
    assert one == other


def test_a_keeper_of_an_older_version_holds_nothing() -> None:
    older = reports.keeper_report(wire_report())
    assert (older.kept, older.guard, older.archive_is_final) == (None, None, False)


def test_an_entry_that_waits_is_a_place_in_the_list() -> None:
    waiting = {"state": "Preparing", "code": "", "message": "", "waitingFor": 4095}
    assert reports.keeper_report(wire_report(workspace=waiting)).waiting_for == 4095


@pytest.mark.parametrize(
    "sections",
    [
        {"workspace": None},
        {"workspace": {"state": "Preparing", "waitingFor": -1}},
        {"workspace": {"state": "Preparing", "waitingFor": 4096}},
        {"workspace": {"state": "Preparing", "waitingFor": True}},
        {"workspace": {"state": "Preparing", "waitingFor": "0"}},
        {"workspace": {"state": "Splendid"}},
        {"workspace": {"state": ["Ready"]}},
        {"workspace": {"state": "Failed", "code": "Bad Code\n"}},
        {"gate": {"challenge": CHALLENGE + "0", "opened": ""}},
        {"gate": {"challenge": CHALLENGE, "opened": "x"}},
        {"gate": {"challenge": CHALLENGE + "\n", "opened": ""}},
        {"gate": []},
        {"marker": {"slot": "../other", "epoch": 1, "recovery": "Restored"}},
        {"marker": {"slot": "s", "epoch": -1, "recovery": "Restored"}},
        {"marker": {"slot": "s", "epoch": True, "recovery": "Restored"}},
        {"marker": {"slot": "s", "epoch": 1, "recovery": "Restored", "source": {"epoch": 1}}},
        {"marker": {"slot": "s", "epoch": 1, "recovery": "Restored", "source": [1, 1]}},
        {"marker": {"slot": "s", "epoch": 10**30, "recovery": "Restored"}},
        {"archive": {"sequence": 1.5, "state": "Stored"}},
        {"archive": {"sequence": 1, "state": "Sent"}},
        {"archive": {"sequence": 1, "state": "Stored", "final": "true"}},
        {"kept": []},
        {"kept": {"checkpoint": 1}},
        {"kept": {"checkpoint": -1, "final": 0}},
        {"kept": {"checkpoint": 2**60, "final": 0}},
        {"kept": {"checkpoint": True, "final": 0}},
        {"guard": {"level": "Fuller", "sizeBytes": 1, "limitBytes": 1, "intervalSeconds": 1}},
        {"guard": {"level": "Full", "sizeBytes": -1, "limitBytes": 1, "intervalSeconds": 1}},
        {"guard": {"level": "Full", "sizeBytes": 1, "limitBytes": 2**64, "intervalSeconds": 1}},
        {"guard": {"level": "Full", "sizeBytes": 1, "limitBytes": 1}},
        {"evidence": {"challenge": CHALLENGE, "runtime": {"version": ""}, "probes": [{}] * 33}},
        {"evidence": {"challenge": CHALLENGE, "runtime": {}, "probes": []}},
        {
            "evidence": {
                "challenge": CHALLENGE,
                "runtime": {"version": ""},
                "probes": [{"name": "canary", "outcome": "Refused"}, {"name": "canary", "outcome": "Connected"}],
            }
        },
    ],
)
def test_a_report_with_a_malformed_part_counts_as_not_given(sections: dict[str, Any]) -> None:
    with pytest.raises(reports.MalformedError):
        reports.keeper_report(wire_report(**sections))


def test_evidence_from_before_init_spoke_is_no_evidence_and_spoils_nothing() -> None:
    early = {"challenge": "", "runtime": {"version": ""}, "probes": [{"name": "canary", "outcome": "Refused"}]}
    report = reports.keeper_report(wire_report(evidence=early))
    assert report.evidence is None
    assert report.workspace_state == "Ready"


@pytest.mark.parametrize(
    "agent", [None, [], "x", {"state": "Ruling"}, {"state": {}}, {"state": []}, {"state": None, "exitCode": 0}]
)
def test_an_agent_can_spoil_only_its_own_part(agent: object) -> None:
    report = reports.keeper_report(wire_report(agent=agent))
    assert (report.agent_state, report.agent_exit_code, report.agent_message) == ("Unknown", None, "")
    assert report.workspace_state == "Ready"


@pytest.mark.parametrize("exit_code", [True, -1, 256, "0", 1e3, None])
def test_an_exit_code_is_one_or_none(exit_code: object) -> None:
    agent = {"state": "Ended", "exitCode": exit_code}
    assert reports.keeper_report(wire_report(agent=agent)).agent_exit_code is None


def test_an_exit_code_counts_only_when_the_agent_has_ended() -> None:
    for state, expected in (("Ended", 7), ("Running", None)):
        agent = {"state": state, "exitCode": 7}
        assert reports.keeper_report(wire_report(agent=agent)).agent_exit_code == expected


def test_messages_are_one_bounded_line_of_printable_characters() -> None:
    noise = "\x1b[31mred\x1b[0m\r\nInjected: line \N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 5000
    report = reports.keeper_report(wire_report(workspace={"state": "Failed", "code": "", "message": noise}))
    assert len(report.workspace_message) <= reports.LONGEST_MESSAGE
    assert report.workspace_message.isascii()
    assert report.workspace_message.isprintable()
    assert report.workspace_message.startswith("[31mred [0m Injected: line")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(wire_report())), JSON)
def test_whatever_a_section_holds_the_result_is_a_report_or_malformed(section: str, value: Any) -> None:
    try:
        report = reports.keeper_report(wire_report(**{section: value}))
    except reports.MalformedError:
        return
    assert isinstance(report, KeeperReport)
    assert len(report.agent_message) <= reports.LONGEST_MESSAGE


def test_a_history_is_read() -> None:
    read = reports.slot_history({"head": MANIFEST, "content": MANIFEST})
    expected = Manifest(
        epoch=3,
        sequence=1,
        kind="Archive",
        final=True,
        key="p/i/s/0000000003-0000000001",
        digest="ab" * 32,
        bytes=1,
        stored_bytes=2,
        files=3,
        created_at="2026-03-01T12:00:00Z",
        parent=(2, 4),
    )
    assert read == SlotHistory(expected, expected)
    assert reports.slot_history({"head": None, "content": None}) == SlotHistory(None, None)


@pytest.mark.parametrize(
    "result",
    [
        {"head": None, "content": MANIFEST},
        {"head": MANIFEST, "content": {**MANIFEST, "kind": "Fence"}},
        {"head": {**MANIFEST, "final": "yes"}, "content": None},
        {"head": {**MANIFEST, "epoch": -1}, "content": None},
        {"head": {**MANIFEST, "digest": "short"}, "content": None},
        [],
        None,
    ],
)
def test_a_history_that_cannot_be_is_malformed(result: object) -> None:
    with pytest.raises(reports.MalformedError):
        reports.slot_history(result)
