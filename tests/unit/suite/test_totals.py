"""The closing line adds up what happened: above all, it never hides a failure."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from imaging.staging import REPOSITORY
from suite import cli, parts, totals
from suite.parts import Counts, Part
from suite.running import Runner
from suite.totals import Totals
from testbed import network, processes, waiting


def junit(folder: Path, **counts: int) -> Path:
    attributes = " ".join(f'{name}="{value}"' for name, value in counts.items())
    report = folder / "report.xml"
    report.write_text(f"<testsuites><testsuite {attributes}/></testsuites>")
    return report


def test_the_closing_line_has_its_one_form() -> None:
    assert str(Totals(3, 2, 1)) == "3 passed, 2 failed, 1 skipped"


def test_pytest_failures_and_errors_both_fail(tmp_path: Path) -> None:
    report = junit(tmp_path, tests=10, failures=2, errors=1, skipped=3)
    assert totals.of_pytest(report, 1) == Totals(4, 3, 3)


def test_a_run_that_left_no_report_failed(tmp_path: Path) -> None:
    assert totals.of_pytest(tmp_path / "none.xml", 0) == Totals(failed=1)


def test_a_torn_report_failed(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text("<testsuites><tests")
    assert totals.of_pytest(tmp_path / "report.xml", 0) == Totals(failed=1)


def test_an_exit_code_is_never_zero_failures(tmp_path: Path) -> None:
    assert totals.of_pytest(junit(tmp_path, tests=5), 2) == Totals(5, 1, 0)
    assert totals.of_go("", 2) == Totals(failed=1)


def test_no_tests_at_all_are_no_success(tmp_path: Path) -> None:
    assert totals.of_pytest(junit(tmp_path, tests=0), 0).failed == 1
    assert totals.of_pytest(junit(tmp_path, tests=2, skipped=2), 0) == Totals(0, 1, 2)


def test_go_counts_tests_and_not_packages() -> None:
    events = [
        {"Action": "run", "Test": "TestA"},
        {"Action": "pass", "Test": "TestA"},
        {"Action": "fail", "Test": "TestB"},
        {"Action": "skip", "Test": "TestC"},
        {"Action": "fail", "Package": "p"},
    ]
    log = "\n".join(["# a word of the compiler", *(json.dumps(event) for event in events)])
    assert totals.of_go(log, 1) == Totals(1, 1, 1)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr("suite.running.RESULTS", tmp_path / "results")
    return Runner()


def test_a_part_whose_need_failed_is_counted_as_failed(runner: Runner) -> None:
    runner.run(Part("first", ("false",)))
    assert not runner.run(Part("second", ("true",), needs=("first",)))
    assert runner.totals == Totals(failed=2)


def test_a_step_counts_only_when_it_fails(runner: Runner) -> None:
    assert runner.run(Part("good", ("true",), Counts.STEP))
    assert runner.totals == Totals()
    assert not runner.run(Part("bad", ("false",), Counts.STEP))
    assert runner.totals == Totals(failed=1)


def test_a_program_that_is_not_there_failed(runner: Runner) -> None:
    assert not runner.run(Part("absent", ("/nowhere/program",)))
    assert runner.totals == Totals(failed=1)


def test_a_part_that_takes_too_long_is_ended_with_all_its_processes(runner: Runner, tmp_path: Path) -> None:
    said = tmp_path / "children"
    script = f"(sleep 60 & echo $! >{said}; wait) & wait"
    assert not runner.run(Part("slow", ("sh", "-c", script), seconds=0.5))
    assert runner.totals == Totals(failed=1)
    child = int(said.read_text())
    waiting.until("the child is gone", lambda: processes.start_time(child) is None, seconds=5)


def test_parts_need_only_what_runs_before_them_or_in_the_other_row() -> None:
    seen: set[str] = set()
    for part in (*parts.CLUSTER, *parts.WITHOUT_CLUSTER):
        assert set(part.needs) <= seen, part.name
        assert part.name not in seen
        seen.add(part.name)


def test_a_part_waits_for_what_it_needs_of_the_other_row(runner: Runner, tmp_path: Path) -> None:
    made = tmp_path / "made"
    build = Part("build", ("sh", "-c", f"sleep 0.3; touch {made}"), Counts.STEP)
    uses = Part("uses", ("test", "-e", str(made)), needs=("build",))
    assert not cli._run(runner, [build], [Part("first", ("true",)), uses], touches_cluster=False)
    assert runner.totals == Totals(passed=2)


def test_what_the_other_row_failed_to_make_is_not_waited_for(runner: Runner) -> None:
    needy = Part("needy", ("true",), needs=("build",))
    assert not cli._run(runner, [Part("build", ("false",), Counts.STEP)], [needy], touches_cluster=False)
    assert runner.totals == Totals(failed=2)


def test_an_end_on_request_ends_both_rows(runner: Runner) -> None:
    began = time.monotonic()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    slow = [Part("slow", ("sleep", "60"))], [Part("slow-beside", ("sleep", "60")), Part("never", ("false",))]
    try:
        assert cli._run(runner, *slow, touches_cluster=False)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert time.monotonic() - began < 20
    assert runner.totals.failed <= 1


def test_every_test_is_run_by_exactly_one_part() -> None:
    folders = {f"tests/{p.name}" for p in (REPOSITORY / "tests").iterdir() if list(p.rglob("test_*.py"))}
    named = [(word, marks_of(part)) for part in parts.everything() for word in part.argv if word.startswith("tests/")]
    assert len(named) == len(set(named))
    for folder in folders:
        # All of it at once, or two halves that are each other's complement.
        assert sorted(marks for name, marks in named if name == folder) in ([""], ["alone", "not alone"]), folder


def marks_of(part: Part) -> str:
    return part.argv[part.argv.index("-m", 2) + 1] if "-m" in part.argv[2:] else ""


@pytest.mark.parametrize(("was_up", "left_up", "downs"), [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_the_cluster_is_left_as_it_was_found(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, *, was_up: bool, left_up: bool, downs: int
) -> None:
    """And when it cannot be, that is a failure like any other."""
    states = iter([was_up, left_up])
    monkeypatch.setattr(network, "exists", lambda: next(states))
    monkeypatch.setattr(cli, "_on_request", lambda _: None)
    monkeypatch.setattr(parts, "DOWN", Part("cluster-down", ("false",), Counts.STEP))
    assert not cli._run(runner, [Part("one", ("true",))], [], touches_cluster=True)
    assert runner.totals == Totals(passed=1, failed=downs)
