"""How many tests passed, failed and were skipped, as the parts themselves report it."""

import json
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET


@dataclass(frozen=True)
class Totals:
    """Counted tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def of_exit(code: int) -> Totals:
    """A check is one test."""
    return Totals(failed=1) if code else Totals(passed=1)


def of_pytest(report: Path, code: int) -> Totals:
    """What the JUnit file says; a run that failed without saying so (a crash, a collection error) failed once."""
    try:
        suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - our own file
    except (OSError, ET.ParseError):
        return Totals(failed=1)
    count = {key: sum(int(s.get(key, 0)) for s in suites) for key in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    # pytest counts a test that passed and then failed in its teardown twice; no number may go below zero for that.
    passed = max(count["tests"] - failed - count["skipped"], 0)
    return _honest(Totals(passed, failed, count["skipped"]), code)


def of_go(log: str, code: int) -> Totals:
    """What `go test -json` says of tests; packages and build failures show in the exit code."""
    ends = {"pass": 0, "fail": 0, "skip": 0}
    for line in log.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # output of the compiler and of dying test binaries stands between the events
        if isinstance(event, dict) and event.get("Test") and event.get("Action") in ends:
            ends[event["Action"]] += 1
    return _honest(Totals(ends["pass"], ends["fail"], ends["skip"]), code)


def _honest(counted: Totals, code: int) -> Totals:
    """A failing exit code is never zero failures, and no tests at all are not a success."""
    if not counted.failed and (code or not counted.passed):
        return counted + Totals(failed=1)
    return counted
