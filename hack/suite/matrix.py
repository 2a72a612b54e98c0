"""Faults and outcomes of a test run as a table, from the rows that its tests recorded (`testkit/fault_matrix.py`).

It decides nothing about a row. A row that says lost, one that cannot be read, and a run without rows are failures.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from suite.totals import Totals

OUTCOMES = ("kept", "restored", "refused", "recovered", "lost")
LOST = "lost"
SCHEMA = 1
_ROWS, _JSON, _TABLE = "faults.jsonl", "faults.json", "faults.md"


@dataclass(frozen=True)
class Row:
    """What became of one fault in one test."""

    fault: str
    runtime: str
    outcome: str
    seconds: float
    test: str
    detail: str = ""


def rows_file(folder: Path) -> Path:
    """Where the tests of a run append their rows."""
    return folder / _ROWS


def begin(folder: Path) -> None:
    """A new run: nothing of an earlier one counts."""
    for name in (_ROWS, _JSON, _TABLE):
        (folder / name).unlink(missing_ok=True)


def collect(folder: Path) -> Totals:
    """Write the table, print it, and say how it counts: as one test."""
    rows, unreadable = _read(rows_file(folder))
    counts = {outcome: sum(row.outcome == outcome for row in rows) for outcome in OUTCOMES}
    document = {"schema": SCHEMA, "outcomes": counts, "rows": [asdict(row) for row in rows]}
    (folder / _JSON).write_text(json.dumps(document, indent=1) + "\n")
    (folder / _TABLE).write_text("\n".join(_table(rows)) + "\n")
    print(*_table(rows), sep="\n", flush=True)
    problems = [f"lost: {row.fault} on {row.runtime}: {row.detail} ({row.test})" for row in rows if row.outcome == LOST]
    problems += [f"a row that cannot be read: {line[:200]}" for line in unreadable]
    if not rows:
        problems.append("no test recorded what became of a fault")
    for problem in problems:
        print(problem, flush=True)
    return Totals(failed=1) if problems else Totals(passed=1)


def _read(file: Path) -> tuple[list[Row], list[str]]:
    """Rows in the order of the table, and lines that are none."""
    rows: list[Row] = []
    unreadable: list[str] = []
    for line in file.read_text().splitlines() if file.exists() else ():
        row = _row(line)
        if row is None:
            unreadable.append(line)
        else:
            rows.append(row)
    return sorted(rows, key=lambda row: (row.fault, row.runtime, row.test)), unreadable


def _row(line: str) -> Row | None:
    try:
        row = Row(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return row if row.outcome in OUTCOMES else None


def _table(rows: Sequence[Row]) -> list[str]:
    """A line a fault; a cell names where it was played."""
    lines = [f"| fault | {' | '.join(OUTCOMES)} | seconds |", f"|---|{'---|' * len(OUTCOMES)}---|"]
    for fault in dict.fromkeys(row.fault for row in rows):
        of_it = [row for row in rows if row.fault == fault]
        cells = [", ".join(dict.fromkeys(row.runtime for row in of_it if row.outcome == each)) for each in OUTCOMES]
        lines.append(f"| {fault} | {' | '.join(cells)} | {max(row.seconds for row in of_it):.1f} |")
    return lines
