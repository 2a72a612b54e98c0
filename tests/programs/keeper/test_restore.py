"""What must not become a workspace: broken snapshots, half restores, trees that are not ours to empty."""

import asyncio
import hashlib
import json
import random
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testkit import trees
from testkit.fake_mover import FakeMover, Snapshot
from testkit.keeper_pod import AGENT_UID, KeeperPod, eventually
from testkit.keeper_stories import archived, opened, order_restore, restored
from testkit.trees import MIB, File, Folder, HardLink, Symlink, Tree

SMALL: Tree = {
    b"a": Folder(),
    b"a/file": File(((0, b"content" * 5000),)),
    b"a/link": HardLink(b"a/file"),
    b"b": Symlink(b"a"),
    b"random": File(((0, random.Random(7).randbytes(3 * MIB)),)),  # noqa: S311
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """An archive of SMALL, as the keeper made it."""

    async def make() -> Snapshot:
        mover = FakeMover(tmp_path_factory.mktemp("tls"))
        await mover.start()
        try:
            with KeeperPod() as pod:
                await opened(pod, mover)
                trees.build(SMALL, pod.workspace, AGENT_UID)
                return (await archived(mover)).snapshot(1, 1)
        finally:
            await mover.stop()

    return asyncio.run(make())


def with_header(snapshot: Snapshot, **fields: Any) -> Snapshot:
    return replace(snapshot, header={**snapshot.header, **fields})


def with_layer(snapshot: Snapshot, layer: bytes) -> Snapshot:
    """Another layer under a manifest that vouches for it: only the records can tell."""
    digest = {**snapshot.header["layers"][0], "sha256": hashlib.sha256(layer).hexdigest(), "bytes": len(layer)}
    return with_header(replace(snapshot, layer=layer), layers=[digest])


def with_records(snapshot: Snapshot, change: Callable[[list[dict[str, Any]]], Any]) -> Snapshot:
    records = [json.loads(line) for line in snapshot.records.splitlines()]
    change(records)
    return replace(snapshot, records=b"".join(json.dumps(record).encode() + b"\n" for record in records))


def flipped(layer: bytes) -> bytes:
    middle = len(layer) // 2
    return layer[:middle] + bytes([layer[middle] ^ 1]) + layer[middle + 1 :]


def repacked(layer: bytes, change: Callable[[bytearray], Any]) -> bytes:
    raw = bytearray(subprocess.run(["zstd", "-dc"], input=layer, capture_output=True, check=True).stdout)
    change(raw)
    return subprocess.run(["zstd", "-c"], input=bytes(raw), capture_output=True, check=True).stdout


def change_content(raw: bytearray) -> None:
    at = raw.index(b"contentcontent")
    raw[at] ^= 1


BROKEN: dict[str, Callable[[Snapshot], Snapshot]] = {
    "truncated": lambda good: replace(good, layer=good.layer[:-100]),
    "truncated and vouched for": lambda good: with_layer(good, good.layer[: len(good.layer) // 2]),
    "altered": lambda good: replace(good, layer=flipped(good.layer)),
    "altered and vouched for": lambda good: with_layer(good, flipped(good.layer)),
    "more behind it": lambda good: replace(good, layer=good.layer + b"\0" * 100),
    "empty": lambda good: replace(good, layer=b""),
    "not zstd": lambda good: with_layer(good, b"x" * 10_000),
    "content altered": lambda good: with_layer(good, repacked(good.layer, change_content)),
    "the end of the tar is missing": lambda good: with_layer(
        good, repacked(good.layer, lambda raw: raw.__delitem__(slice(-1024, None)))
    ),
    "another member behind the last": lambda good: with_layer(
        good, repacked(good.layer, lambda raw: raw.extend(b"x" * 512))
    ),
    "a record less": lambda good: with_records(good, lambda records: records.pop()),
    "a record more": lambda good: with_records(good, lambda records: records.append({**records[-1], "path": "z"})),
    "a record twice": lambda good: with_records(good, lambda records: records.insert(1, records[0])),
    "another path": lambda good: with_records(good, lambda records: records[1].update(path="a/other")),
    "another size": lambda good: with_records(good, lambda records: records[1].update(size=1)),
    "another type": lambda good: with_records(good, lambda records: records[0].update(type="symlink", target="/etc")),
    "another target": lambda good: with_records(good, lambda records: records[3].update(target="/etc")),
    "another digest": lambda good: with_records(good, lambda records: records[1].update(sha256="0" * 64)),
    "a link with another digest": lambda good: with_records(good, lambda records: records[2].update(sha256="0" * 64)),
    "a path upwards": lambda good: with_records(good, lambda records: records[1].update(path="../escaped")),
    "an absolute path": lambda good: with_records(good, lambda records: records[1].update(path="/escaped")),
    "a device": lambda good: with_records(good, lambda records: records[1].update(type="char")),
    "no records": lambda good: replace(good, records=b""),
    "records that are none": lambda good: replace(good, records=b"hello\n"),
    "records cut off": lambda good: replace(good, records=good.records[:-1]),
    "no layer": lambda good: with_header(good, layers=[]),
    "two layers": lambda good: with_header(good, layers=good.header["layers"] * 2),
    "another epoch": lambda good: with_header(good, epoch=9),
    "other totals": lambda good: with_header(good, files=99),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_snapshot_is_refused_and_leaves_an_empty_tree(
    pod: KeeperPod, mover: FakeMover, good: Snapshot, how: str
) -> None:
    report = await restored(pod, mover, BROKEN[how](good))
    assert report["workspace"]["state"] == "Failed"
    assert report["workspace"]["code"] == "invalid_snapshot", report["workspace"]
    assert report["marker"] is None
    assert list(pod.workspace.iterdir()) == []
    assert not (pod.base / "escaped").exists()


async def test_the_good_snapshot_they_were_made_of_is_accepted(
    pod: KeeperPod, mover: FakeMover, good: Snapshot
) -> None:
    report = await restored(pod, mover, good)
    assert report["workspace"]["state"] == "Ready"
    assert report["workspace"]["files"] == len(SMALL)


async def test_a_store_that_is_down_at_the_start_is_tried_again(
    pod: KeeperPod, mover: FakeMover, good: Snapshot
) -> None:
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await order_restore(mover)
    report = await mover.until_report(lambda r: r["workspace"]["state"] == "Failed")
    assert report["workspace"]["code"] == "snapshot_store_unavailable"
    mover.snapshots["restore"] = good
    await order_restore(mover)
    await mover.until_report(lambda r: r["workspace"]["state"] == "Ready")


async def test_a_restore_cut_by_sigkill_begins_again_from_an_empty_tree(
    pod: KeeperPod, mover: FakeMover, good: Snapshot
) -> None:
    mover.hold_restores = asyncio.Event()
    mover.snapshots["restore"] = good
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await order_restore(mover)
    await eventually(lambda: list(pod.workspace.iterdir()), "a part is there")
    pod.stop_keeper(signal.SIGKILL)
    assert list(pod.workspace.iterdir()) != []
    (pod.workspace / "a" / "left over").write_text("of the first attempt")

    mover.hold_restores = None
    report = await mover.meet(pod.start_keeper)
    assert report["workspace"]["state"] == "Empty"
    assert report["marker"] is None
    await order_restore(mover)
    await mover.until_report(lambda r: r["workspace"]["state"] == "Ready")
    assert set(trees.walk(pod.workspace)) == set(SMALL)


async def test_a_half_restored_tree_that_an_agent_has_seen_is_never_emptied(
    pod: KeeperPod, mover: FakeMover, good: Snapshot
) -> None:
    (pod.private / "marker.json").write_text(json.dumps({"slot": "slot", "epoch": 2, "complete": False}))
    pod.write_gate("word.json", {"challenge": "a" * 32, "argv": [], "env": {}, "workingDir": "/"})
    (pod.workspace / "work").write_text("of an agent")
    report = await restored(pod, mover, good)
    assert report["workspace"]["code"] == "workspace_setup_failed"
    assert (pod.workspace / "work").read_text() == "of an agent"


async def test_a_mover_that_hangs_up_in_the_middle_is_no_verdict_on_the_snapshot(
    pod: KeeperPod, mover: FakeMover, good: Snapshot
) -> None:
    mover.hold_restores = asyncio.Event()
    mover.snapshots["restore"] = good
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await order_restore(mover)
    await eventually(lambda: list(pod.workspace.iterdir()), "a part is there")
    await mover.stop()
    mover.reports.clear()
    mover.hold_restores = None
    await mover.start()
    report = await mover.until_report(lambda r: r["workspace"]["state"] == "Failed")
    assert report["workspace"]["code"] == "snapshot_store_unavailable"
    assert list(pod.workspace.iterdir()) == []
    await order_restore(mover)
    await mover.until_report(lambda r: r["workspace"]["state"] == "Ready")
