"""What the agent may put where init leaves its hints."""

import json
import os
import socket
from typing import Any

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod
from testkit.keeper_stories import at_home, prepare


def hint(challenge: str, **fields: Any) -> str:
    return json.dumps({"challenge": challenge, "state": "Running", "exitCode": 0, **fields})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        hint("short"),
        hint("F" * 32),
        hint("0" * 32, state="Perfect"),
        hint("0" * 32, exitCode=-1),
        hint("0" * 32, exitCode=999),
        hint("0" * 32, message="x" * 5000),
        "x" * (5 << 20),
    ],
)
async def test_hints_that_no_init_writes_are_ignored(pod: KeeperPod, mover: FakeMover, content: str) -> None:
    await at_home(pod, mover)
    (pod.hints / "unfinished").write_text(content)
    (pod.hints / "unfinished").rename(pod.hints / "init.json")
    assert await then_a_good_hint_is_taken(pod, mover)


@pytest.mark.parametrize("kind", ["fifo", "symlink", "folder", "socket"])
async def test_hints_that_are_no_files_are_ignored(pod: KeeperPod, mover: FakeMover, kind: str) -> None:
    await at_home(pod, mover)
    path = pod.hints / "init.json"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "symlink":
            (pod.base / "elsewhere").write_text(hint("e" * 32))
            path.symlink_to(pod.base / "elsewhere")
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
    assert await then_a_good_hint_is_taken(pod, mover)


async def then_a_good_hint_is_taken(pod: KeeperPod, mover: FakeMover) -> bool:
    """The bad hint stood first, so when the good one is reported the bad one had its chance."""
    path = pod.hints / "init.json"
    await mover.order(**prepare())
    await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (pod.hints / "good").write_text(hint("a" * 32))
    (pod.hints / "good").rename(path)
    await mover.until_report(lambda report: report["gate"]["challenge"])
    return {report["gate"]["challenge"] for report in mover.reports} == {"", "a" * 32}
