"""Output in its forms: plain in a pipe, coloured only where somebody looks and has not declined."""

import json

import pytest
import yaml
from pydantic import BaseModel

from sandhold.cli import printing
from sandhold.cli.call import Output
from sandhold.cli.printing import Column, fields, is_rich, show_list


class Row(BaseModel):
    name: str
    phase: str | None = None
    node: str | None = None


COLUMNS: tuple[Column[Row], ...] = (
    Column("NAME", lambda row: row.name),
    Column("PHASE", lambda row: row.phase),
    Column("NODE", lambda row: row.node, is_wide=True),
)
ROWS = [Row(name="a-long-name", phase="Ready", node="n"), Row(name="b")]


def listed(form: Output, rows: list[Row] | None = None) -> None:
    show_list(form, ROWS if rows is None else rows, COLUMNS, name=lambda row: f"row/{row.name}", nothing="none here")


def test_plain_columns_are_aligned_and_end_without_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    listed(Output.TABLE)
    assert capsys.readouterr().out == "NAME          PHASE\na-long-name   Ready\nb             -\n"
    listed(Output.WIDE)
    assert capsys.readouterr().out.splitlines()[1] == "a-long-name   Ready   n"


def test_programs_get_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    listed(Output.JSON)
    assert json.loads(capsys.readouterr().out) == {"items": [row.model_dump() for row in ROWS]}
    listed(Output.YAML)
    assert capsys.readouterr().out.startswith("items:\n- name: a-long-name\n")
    listed(Output.NAME)
    assert capsys.readouterr().out == "row/a-long-name\nrow/b\n"


def test_nothing_is_said_beside_the_output_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    listed(Output.TABLE, [])
    assert capsys.readouterr() == ("", "none here\n")
    listed(Output.JSON, [])
    assert capsys.readouterr() == ('{\n  "items": []\n}\n', "")


def test_a_hostile_cell_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    listed(Output.TABLE, [Row(name="x", phase="a\nb\x1b[2J")])
    assert capsys.readouterr().out.splitlines()[1:] == ["x      a b [2J"]


@pytest.mark.parametrize("form", [Output.JSON, Output.YAML])
@pytest.mark.parametrize("mark", ["\x1b", "\x9b", "\x7f", "\u202e", "\u2028", "\r"])
def test_programs_get_every_mark_and_terminals_none_that_steers_them(
    form: Output, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row(name="x", phase=f"a{mark}2Jé")]
    listed(form, rows)
    out = capsys.readouterr().out
    assert all(each.isprintable() or each == "\n" for each in out)
    assert yaml.safe_load(out) == {"items": [row.model_dump() for row in rows]}


def test_colours_are_for_a_terminal_whose_owner_did_not_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert not is_rich(), "a captured output is no terminal"
    monkeypatch.setattr(printing.sys.stdout, "isatty", lambda: True)
    assert is_rich()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_rich()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not is_rich()


def test_a_terminal_gets_the_same_cells_in_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printing, "is_rich", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    listed(Output.TABLE)
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert "a-long-name" in out


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    fields((("A", 1), ("Longer", "x\ny"), ("None", None), ("Empty", "")))
    assert capsys.readouterr().out == "A:      1\nLonger: x y\n"
