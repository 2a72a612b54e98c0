"""Entries: what a sandbox's workspace starts with."""

from typing import Any

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_entries import entries_orders, file_entry
from testkit.keeper_pod import KeeperPod
from testkit.keeper_stories import at_home, prepare


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
