"""Rows of faults are what tests saw, and one that is lost is never overlooked."""

import json
from pathlib import Path

import pytest

from suite import matrix
from suite.totals import Totals
from testkit.fault_matrix import ROWS_FILE, Fault, FaultMatrix, Outcome, Where, differences


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = matrix.rows_file(tmp_path)
    monkeypatch.setenv(ROWS_FILE, str(file))
    return file


def fault(name: str = "pod deleted", runtime: Where = Where.RUNC) -> Fault:
    return Fault(name, runtime, "test_it")


def test_the_outcome_follows_from_what_was_seen(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault().judge_workspace({"a": 1}, {"a": 1}, is_same_pod=False)
    fault(runtime=Where.GVISOR).judge_workspace(["a"], ["a"], is_same_pod=True)
    fault("conflict").judge_ending([1], [1])
    fault("nonsense").judge_refusal("no such field", ["a"], ["a"])
    assert matrix.collect(rows.parent) == Totals(passed=1)
    document = json.loads((rows.parent / "faults.json").read_text())
    assert document["outcomes"] == {"kept": 1, "restored": 1, "refused": 1, "recovered": 1, "lost": 0}
    table = (rows.parent / "faults.md").read_text()
    assert "| pod deleted | gvisor | runc |  |  |  | 0.0 |" in table
    assert table in capsys.readouterr().out


@pytest.mark.parametrize("after", [{}, {"a": 2}, {"a": 1, "b": 1}], ids=["missing", "changed", "from nowhere"])
def test_any_difference_is_lost_and_fails(rows: Path, after: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="lost"):
        fault().judge_workspace({"a": 1}, after, is_same_pod=True)
    assert matrix.collect(rows.parent) == Totals(failed=1)


def test_a_refusal_without_a_reason_and_another_ending_are_lost(rows: Path) -> None:
    with pytest.raises(AssertionError):
        fault().judge_refusal(" ")
    with pytest.raises(AssertionError):
        fault().judge_ending("Suspended", "Failed")
    assert [json.loads(line)["outcome"] for line in rows.read_text().splitlines()] == ["lost", "lost"]


def test_what_nobody_judged_is_lost(rows: Path) -> None:
    of_a_test = FaultMatrix("test_it")
    of_a_test.begin("judged", "runc").judge_ending(1, 1)
    of_a_test.begin("forgotten", "gvisor")
    with pytest.raises(AssertionError, match="forgotten"):
        of_a_test.end()
    assert [json.loads(line)["outcome"] for line in rows.read_text().splitlines()] == ["recovered", "lost"]


def test_a_fault_is_judged_once(rows: Path) -> None:
    twice = fault()
    twice.judge_ending(1, 1)
    with pytest.raises(AssertionError, match="twice"):
        twice.judge_ending(1, 1)
    assert len(rows.read_text().splitlines()) == 1


def test_no_rows_and_torn_rows_fail_the_run(tmp_path: Path) -> None:
    assert matrix.collect(tmp_path) == Totals(failed=1)
    matrix.rows_file(tmp_path).write_text('{"fault": "torn", "runti')
    assert matrix.collect(tmp_path) == Totals(failed=1)
    row = {"fault": "a", "runtime": "runc", "outcome": "fine", "seconds": 1, "test": "t"}
    matrix.rows_file(tmp_path).write_text(json.dumps(row))
    assert matrix.collect(tmp_path) == Totals(failed=1)


def test_a_new_run_forgets_the_rows_of_the_last(tmp_path: Path) -> None:
    matrix.rows_file(tmp_path).write_text("old")
    matrix.begin(tmp_path)
    assert not matrix.rows_file(tmp_path).exists()


def test_recorder_and_table_know_the_same_outcomes() -> None:
    assert tuple(Outcome) == matrix.OUTCOMES


def test_differences_are_told_in_bounded_words() -> None:
    said = differences([{"path": "x" * 1000, "n": number} for number in range(100)], [])
    assert said[0].startswith("100 of 100 missing")
    assert len(said[0]) < 2000
