"""Output in five forms. A table has colours and borders of its own only on a terminal; elsewhere it is plain columns.

Texts of objects are written by many hands: nothing that could steer a terminal gets through.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from sandhold.cli.call import Output

Row = TypeVar("Row", bound=BaseModel)
_STYLES = {
    "Ready": "green",
    "Starting": "yellow",
    "Stopping": "yellow",
    "Failed": "red",
    "Collect": "yellow",
    "FirstSeen": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table."""

    title: str
    cell: Callable[[Row], object]
    is_wide: bool = False


def write(text: str) -> None:
    """A line to standard output."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """A line for people, beside the output."""
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


def clean(text: object) -> str:
    """A text in one line without anything that a terminal would act upon."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in str(text)).split())


def is_rich() -> bool:
    """Whether output goes to a terminal whose owner did not decline colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(form: Output, shape: BaseModel, *, name: str, text: Callable[[], None]) -> None:
    """One object in any form; `text` writes it for people."""
    match form:
        case Output.JSON | Output.YAML:
            write(_document(form, plain(shape)))
        case Output.NAME:
            write(name)
        case _:
            text()


def show_list(
    form: Output, rows: Sequence[Row], columns: Sequence[Column[Row]], *, name: Callable[[Row], str], nothing: str
) -> None:
    """Many objects in any form. That there are none is said beside the output, not in it."""
    match form:
        case Output.JSON | Output.YAML:
            write(_document(form, {"items": [plain(row) for row in rows]}))
        case Output.NAME:
            for row in rows:
                write(name(row))
        case _ if not rows:
            note(nothing)
        case _:
            shown = [column for column in columns if form is Output.WIDE or not column.is_wide]
            _table([each.title for each in shown], [[_cell(each.cell(row)) for each in shown] for row in rows])


def plain(shape: BaseModel) -> Any:
    """A shape as plain data: every documented field, in its order, null where there is nothing."""
    return shape.model_dump(mode="json", by_alias=True)


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; what has no value is left out."""
    told = [(name, clean(value)) for name, value in pairs if value not in (None, "", [], ())]
    width = max((len(name) for name, _ in told), default=0) + 1
    for name, value in told:
        write(f"{name + ':':<{width}} {value}")


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return ""
    value, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit holds everything")


def _document(form: Output, document: Any) -> str:
    if form is Output.JSON:
        return _escaped(json.dumps(document, indent=2, ensure_ascii=False))
    import yaml  # noqa: PLC0415 - only where it is wanted

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip("\n")
    is_harmless = text.replace("\n", "").isprintable()
    return text if is_harmless else yaml.safe_dump(document, sort_keys=False).rstrip("\n")


def _escaped(document: str) -> str:
    """JSON with every mark escaped that a terminal might act upon: such marks stand in texts alone."""
    return "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in document)


def _cell(value: object) -> str:
    return clean(value) if value not in (None, "") else "-"


def _table(titles: list[str], rows: list[list[str]]) -> None:
    if is_rich():
        _rich_table(titles, rows)
        return
    widths = [max(len(row[index]) for row in [titles, *rows]) for index in range(len(titles))]
    for row in [titles, *rows]:
        write("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_table(titles: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - a fifth of a second that a pipe need not wait for
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(file=sys.stdout, highlight=False).print(table)
