"""What counts as a write of ours in the audit log, and what does not."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench import audit

BEGIN, END = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"
WITHIN = "2026-01-01T00:00:30.000000Z"
OURS = "system:serviceaccount:sandhold-system:sandhold-operator"


def line(**changes: Any) -> dict[str, Any]:
    about = {"resource": "sandboxsessions", "subresource": "status", "namespace": "team", "name": "quill"}
    whole = {
        "user": {"username": OURS},
        "verb": "patch",
        "objectRef": about,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": WITHIN,
    }
    return whole | changes


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDHOLD_STATE", str(tmp_path))
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "audit.jsonl"


def counted(log: Path, *lines: dict[str, Any]) -> list[str]:
    log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return [f"{found.verb} {found.what} {found.code}" for found in audit.writes(BEGIN, END)]


def test_a_write_of_ours_is_named_with_its_part_and_answer(log: Path) -> None:
    assert counted(log, line()) == ["patch sandboxsessions/status team/quill 200"]


def test_a_write_that_failed_counts_too(log: Path) -> None:
    assert counted(log, line(responseStatus={"code": 409})) == ["patch sandboxsessions/status team/quill 409"]


@pytest.mark.parametrize(
    "changes",
    [
        {"verb": "get"},
        {"verb": "watch"},
        {"user": {"username": "system:serviceaccount:elsewhere:sandhold-operator"}},
        {"user": {"username": "someone"}},
        {"objectRef": {"resource": "events", "namespace": "team", "name": "quill.1"}},
        {"objectRef": {"resource": "tokenreviews"}},
        {"objectRef": {"resource": "leases", "namespace": "sandhold-system", "name": "sandhold-operator"}},
        {"requestReceivedTimestamp": "2025-12-31T23:59:59.999999Z"},
        {"requestReceivedTimestamp": END},
    ],
)
def test_what_is_no_write_of_ours_within_the_time_does_not_count(log: Path, changes: dict[str, Any]) -> None:
    assert counted(log, line(**changes)) == []


def test_what_was_rotated_away_meanwhile_counts_and_older_files_do_not(log: Path) -> None:
    old, rotated = log.with_name("audit-1.jsonl"), log.with_name("audit-2.jsonl")
    old.write_text(json.dumps(line(verb="delete")) + "\n")
    rotated.write_text(json.dumps(line(verb="create")) + "\n")
    os.utime(old, (0, 0))
    assert len(counted(log, line())) == 2
