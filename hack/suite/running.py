"""Runs one part: bounded, logged, in a process group of its own that is ended as a whole when its time is over."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from suite import matrix, totals
from suite.parts import RESULTS, Counts, Part
from suite.totals import Totals

_SHOWN_LINES = 80
# What lacks a binary is a failure here, not a skip; tests of faults say what became of them.
_ENVIRONMENT = {"CI": "true", "SANDHOLD_FAULT_ROWS": str(matrix.rows_file(RESULTS))}
_GRACE_SECONDS = 180
"""Tests that are told to end get the time to put the cluster right again."""


@dataclass(frozen=True)
class Outcome:
    """What became of a part."""

    succeeded: bool
    counted: Totals


class Runner:
    """Runs parts and remembers which of them succeeded. Two rows of parts may be run by two threads."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._succeeded: set[str] = set()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._changed = threading.Condition()
        self._ended: set[str] = set()
        self._is_ending = False
        RESULTS.mkdir(parents=True, exist_ok=True)

    def run(self, part: Part, *, beside: frozenset[str] = frozenset()) -> bool:
        """Run a part, say how it went, and count it. What it needs of the other row (`beside`) is waited for."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending or not (set(part.needs) & beside) - self._ended)
        if self._is_ending:
            return False
        succeeded = self._run(part)
        with self._changed:
            self._ended.add(part.name)
            self._changed.notify_all()
        return succeeded

    def clean_up(self, part: Part) -> bool:
        """Run a part whatever became of the others, also after `end`."""
        return self._run(part)

    def end(self) -> None:
        """Begin no part any more, and end those that run."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            running = list(self._children)
        for child in running:
            _end(child)

    def _run(self, part: Part) -> bool:
        lacking = [name for name in part.needs if name not in self._succeeded]
        if lacking:
            print(f"{part.name:18} NOT RUN: {', '.join(lacking)} failed", flush=True)
            self._count(Totals(failed=1))
            return False
        log = RESULTS / f"{part.name}.log"
        began = time.monotonic()
        code, overran = self._execute(part, log)
        counted = _count(part, log, code)
        self._count(counted)
        if not code:
            self._succeeded.add(part.name)
        said = "" if part.counts is Counts.STEP else f"  {counted}"
        print(f"{part.name:18} {'ok' if not code else 'FAILED':6} {time.monotonic() - began:6.1f} s{said}", flush=True)
        if code:
            _show(log, f"not finished within {part.seconds:.0f} s" if overran else "")
        return not code

    def _execute(self, part: Part, log: Path) -> tuple[int, bool]:
        """The exit code, and whether the part had to be ended."""
        (RESULTS / f"{part.name}.xml").unlink(missing_ok=True)
        with log.open("wb") as output:
            try:
                child = subprocess.Popen(
                    part.argv, cwd=part.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True, env=os.environ | _ENVIRONMENT,
                )  # fmt: skip
            except OSError as error:
                output.write(f"{part.argv[0]} cannot be run: {error}\n".encode())
                return 127, False
            self._children.add(child)
            try:
                return child.wait(part.seconds), False
            except subprocess.TimeoutExpired:
                return _end(child), True
            except BaseException:
                # This run is to end: what runs now ends first, so that the cluster is not pulled from under it.
                _end(child)
                raise
            finally:
                self._children.discard(child)

    def _count(self, counted: Totals) -> None:
        with self._changed:
            self.totals += counted


def _end(child: subprocess.Popen[bytes]) -> int:
    """Ask the group to end (pytest then runs its fixtures' ends), and after a grace make all of it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_SECONDS)
    # Its first process has ended or will not: what ignored the request, or was left behind, ends now.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return 124


def _count(part: Part, log: Path, code: int) -> Totals:
    if part.counts is Counts.PYTEST:
        return totals.of_pytest(RESULTS / f"{part.name}.xml", code)
    if part.counts is Counts.GO:
        return totals.of_go(log.read_text(errors="replace"), code)
    return totals.of_exit(code) if code or part.counts is Counts.CHECK else Totals()


def _show(log: Path, note: str) -> None:
    """The end of a log, where the reason usually is."""
    lines = log.read_text(errors="replace").splitlines()
    print(*(f"    {line}" for line in lines[-_SHOWN_LINES:]), sep="\n")
    print(f"    {note + '; ' if note else ''}all of it: {log}", flush=True)
