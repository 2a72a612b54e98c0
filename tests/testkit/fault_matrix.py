"""The matrix of faults and outcomes: what a test saw of a workspace, or of an operation, after something went wrong.

A test begins a fault right before it happens and judges it by what it found afterwards. It never names the outcome,
that follows from the comparison. What nobody judged counts as lost, and what is lost fails the test. Rows are appended
to the file that `SANDHOLD_FAULT_ROWS` names (the test run does); `hack/suite/matrix.py` makes the table of them.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ROWS_FILE = "SANDHOLD_FAULT_ROWS"
_SHOWN = 5


class Where(StrEnum):
    """What a fault was played on."""

    RUNC = "runc"
    GVISOR = "gvisor"
    PROCESS = "process"
    """Our real programs on loopback, without a cluster."""
    MEMORY = "memory"
    """The operator over the fakes."""


class Outcome(StrEnum):
    """What became of it."""

    KEPT = "kept"
    """The same pod holds the whole content: nobody had to bring anything back."""
    RESTORED = "restored"
    """Another pod holds the whole content."""
    REFUSED = "refused"
    """What was asked for was turned down with a reason, and nothing that was there has changed."""
    RECOVERED = "recovered"
    """The operation ended where it ends without the fault."""
    LOST = "lost"
    """Anything is missing or other than it was, or nobody could see what there is."""


@dataclass
class Fault:
    """One fault on one runtime; judged exactly once."""

    name: str
    runtime: Where
    test: str
    began: float = field(default_factory=time.monotonic)
    outcome: Outcome | None = None

    def judge_workspace(self, before: Iterable[Any], after: Iterable[Any], *, is_same_pod: bool) -> None:
        """Compare the entries that a walker saw before and after, in whatever form, as long as it is the same twice."""
        self._record(Outcome.KEPT if is_same_pod else Outcome.RESTORED, differences(before, after))

    def judge_ending(self, expected: object, found: object) -> None:
        """Compare where an operation ended with where it ends when nothing goes wrong."""
        trouble = [] if expected == found else [f"expected {expected!r}, found {found!r}"]
        self._record(Outcome.RECOVERED, trouble)

    def judge_refusal(self, reason: str, before: Iterable[Any] = (), after: Iterable[Any] = ()) -> None:
        """Something was turned down, in the words of whoever did it; what was there is compared as a workspace is."""
        trouble = [] if reason.strip() else ["nobody said why"]
        self._record(Outcome.REFUSED, trouble + differences(before, after))

    def give_up(self, why: str) -> None:
        """Nobody could see what is left."""
        if self.outcome is None:
            self._append(Outcome.LOST, why)

    def _record(self, outcome: Outcome, trouble: list[str]) -> None:
        assert self.outcome is None, f"{self.name}: judged twice"
        self._append(Outcome.LOST if trouble else outcome, "; ".join(trouble)[:2000])
        assert not trouble, f"{self.name} on {self.runtime}: lost:\n" + "\n".join(trouble)

    def _append(self, outcome: Outcome, detail: str) -> None:
        self.outcome = outcome
        file = os.environ.get(ROWS_FILE)
        if file is None:
            return
        row = {
            "fault": self.name,
            "runtime": str(self.runtime),
            "outcome": str(outcome),
            "seconds": round(time.monotonic() - self.began, 2),
            "test": self.test,
            "detail": detail,
        }
        # In one write to the file's end: test processes run side by side.
        rows = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(rows, json.dumps(row).encode() + b"\n")
        finally:
            os.close(rows)


class FaultMatrix:
    """The faults of one test: the fixture `matrix`."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._faults: list[Fault] = []

    def begin(self, name: str, runtime: Where | str) -> Fault:
        """A fault happens now. The name is a phrase that a reader of the table understands without the test."""
        fault = Fault(name, Where(runtime), self._test)
        self._faults.append(fault)
        return fault

    def end(self) -> None:
        """The test is over."""
        forgotten = [fault for fault in self._faults if fault.outcome is None]
        for fault in forgotten:
            fault.give_up("the test ended before it was judged")
        assert not forgotten, f"begun and never judged: {', '.join(fault.name for fault in forgotten)}"


def differences(before: Iterable[Any], after: Iterable[Any]) -> list[str]:
    """What is missing and what came from nowhere, in words; a mapping counts as its items."""
    first, second = _entries(before), _entries(after)
    missing = [entry for entry in first if entry not in second]
    added = [entry for entry in second if entry not in first]
    said = []
    if missing:
        said.append(f"{len(missing)} of {len(first)} missing or changed: {_some(missing)}")
    if added:
        said.append(f"{len(added)} that were not there: {_some(added)}")
    return said


def _entries(entries: Iterable[Any]) -> list[Any]:
    return list(entries.items()) if isinstance(entries, Mapping) else list(entries)


def _some(entries: list[Any]) -> str:
    shown = ", ".join(str(entry)[:300] for entry in entries[:_SHOWN])
    return shown + (", …" if len(entries) > _SHOWN else "")
