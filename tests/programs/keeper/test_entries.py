"""Entries: what a sandbox's workspace starts with."""

import base64
import hashlib
import json
from typing import Any

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod
from testkit.keeper_stories import at_home, prepare


def entries_orders(entries: list[dict[str, Any]], size: int = 100) -> list[dict[str, Any]]:
    text = json.dumps(entries).encode()
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    digest = hashlib.sha256(text).hexdigest()
    return [
        {
            "verb": "entries",
            "digest": digest,
            "index": index,
            "count": len(parts),
            "data": base64.b64encode(part).decode(),
        }
        for index, part in enumerate(parts)
    ]


def file_entry(path: str, content: bytes = b"x", mode: int = 0o644) -> dict[str, Any]:
    return {"path": path, "kind": "File", "mode": mode, "content": base64.b64encode(content).decode()}


async def test_entries_come_in_parts_in_any_order_even_after_the_preparation(pod: KeeperPod, mover: FakeMover) -> None:
    await at_home(pod, mover)
    orders = entries_orders(
        [
            file_entry("a/b/run.sh", b"#!/bin/sh\n", 0o4755),
            {"path": "empty", "kind": "Directory", "mode": 0o1777},
            file_entry("große/datei", b"\0\xff" * 300),
        ]
    )
    await mover.order(**prepare(entriesDigest=orders[0]["digest"]))
    for order in [*orders[::-1], orders[0]]:
        await mover.order(**order)
    report = await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")
    assert report["workspace"]["files"] == 3
    assert report["marker"] == {"slot": "slot", "epoch": 3, "recovery": "Initialized", "source": None}
    assert (pod.workspace / "a/b/run.sh").read_bytes() == b"#!/bin/sh\n"
    assert (pod.workspace / "a/b/run.sh").stat().st_mode & 0o7777 == 0o4755
    assert (pod.workspace / "a/b").stat().st_mode & 0o7777 == 0o755
    assert (pod.workspace / "empty").stat().st_mode & 0o7777 == 0o1777
    assert (pod.workspace / "große/datei").read_bytes() == b"\0\xff" * 300


LINK_OUT = [
    {"path": "a", "kind": "Directory", "mode": 0o755},
    file_entry("a/b"),
]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([file_entry("../out")], "leaves the workspace"),
        ([file_entry("/etc/out")], "leaves the workspace"),
        ([file_entry("a/../../out")], "leaves the workspace"),
        ([file_entry("a//b")], "not normalised"),
        ([file_entry("./a")], "not normalised"),
        ([file_entry("a/")], "not normalised"),
        ([file_entry("")], "not normalised"),
        ([file_entry("a\0b")], "not normalised"),
        ([file_entry("a" * 256)], "not normalised"),
        ([file_entry("a"), file_entry("a/b")], "something else is in its place"),
        ([{"path": "a", "kind": "Directory", "mode": 0o755}, file_entry("a")], 'entries[1] writes "a" too'),
        ([file_entry("a"), {"path": "a", "kind": "Directory", "mode": 0o755}], 'entries[1] writes "a" too'),
        ([{"path": "a", "kind": "Device", "mode": 0o755}], "kind"),
        ([file_entry("a", mode=0o100644)], "more than permission bits"),
    ],
)
async def test_entries_that_do_not_fit_are_refused_and_nothing_stays(
    pod: KeeperPod, mover: FakeMover, entries: list[dict[str, Any]], reason: str
) -> None:
    await at_home(pod, mover)
    orders = entries_orders([file_entry("good"), *entries])
    for order in orders:
        await mover.order(**order)
    await mover.order(**prepare(entriesDigest=orders[0]["digest"]))
    report = await mover.until_report(lambda report: report["workspace"]["state"] == "Failed")
    assert report["workspace"]["code"] == "workspace_setup_failed"
    assert reason in report["workspace"]["message"]
    assert "workspace.entries[" in report["workspace"]["message"]
    assert report["marker"] is None
    assert list(pod.workspace.iterdir()) == []
