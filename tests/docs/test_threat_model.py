"""The threat model names tests that exist: a threat whose test was renamed away would only look guarded."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[str]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    return [line for line in lines if not line.startswith("| threat |")]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split(" | ")[0][2:60])
def test_every_threat_has_a_test_that_exists_or_says_that_it_has_none(row: str) -> None:
    named = NAMED.findall(row)
    assert named or "| none" in row, "a threat without a test"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in functions_of(path), f"{path} has no {name}"


def test_there_are_threats() -> None:
    assert len(rows()) > 25
