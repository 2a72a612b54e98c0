"""What an archive holds, what it leaves out, and how it fails."""

import base64
import hashlib
import io
import json
import os
import signal
import socket
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from testkit import trees
from testkit.fake_mover import FakeMover
from testkit.keeper_pod import AGENT_UID, KeeperPod, eventually
from testkit.keeper_stories import archived, guard, keep, opened, prepare, restored, waiting_init, word
from testkit.trees import MIB, ODD

# ruff: noqa: ASYNC220, ASYNC221  # the tools that a test waits for are the test


async def test_sockets_fifos_and_devices_are_left_out_without_waiting(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    os.mkfifo(pod.workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(pod.workspace / "socket"))
    os.mknod(pod.workspace / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (pod.workspace / "file").write_text("kept")
    received = await archived(mover)
    assert [json.loads(line)["path"] for line in received.records.splitlines()] == ["file"]
    assert received.done["skipped"] == 3


async def test_records_and_totals_say_what_the_layer_holds(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    trees.build(ODD, pod.workspace, AGENT_UID)
    received = await archived(mover)
    records = [json.loads(line) for line in received.records.splitlines()]
    assert received.done["layerSha256"] == hashlib.sha256(received.layer).hexdigest()
    assert received.done["layerBytes"] == len(received.layer)
    assert received.done["files"] == len(records) == len(ODD)
    raw = subprocess.run(["zstd", "-dc"], input=received.layer, capture_output=True, check=True).stdout
    assert received.done["rawBytes"] == len(raw)
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        names = [os.fsencode(member.name) for member in tar]
    assert names == [path_of(record) for record in records]
    assert mover.report["archive"]["files"] == len(records)


def path_of(record: dict[str, Any]) -> bytes:
    if "path" in record:
        return str(record["path"]).encode()
    return bytes(base64.b64decode(record["pathBase64"]))


CHURN = """
import os, random, sys
random.seed(7)
os.chdir(sys.argv[1])
os.mkdir("stable")
for number in range(200):
    open(f"stable/{number}", "w").write("stable" * number)
open("started", "w").close()
while True:
    name = f"victim-{random.randrange(20)}"
    spare = f"spare-{random.randrange(20)}"
    try:
        match random.randrange(8):
            case 0: open(name, "ab").write(os.urandom(random.randrange(300_000)))
            case 1: os.truncate(name, random.randrange(1000))
            case 2: os.unlink(name)
            case 3: os.mkfifo(name)
            case 4: os.symlink("/etc/passwd", name)
            case 5: os.mkdir(name); open(f"{name}/inside", "w").write("x")
            case 6: os.rename(name, spare)
            case 7: os.rename(spare, name)
    except OSError:
        pass
"""


@pytest.mark.parametrize("rest", [b"", b"\0" * 40, b'{"challenge":"aaa'], ids=["empty", "zeros", "half"])
async def test_files_that_a_power_loss_tore_do_not_lock_a_workspace_in(
    pod: KeeperPod, mover: FakeMover, rest: bytes
) -> None:
    """What is not made durable need not have reached the disk; workspace and marker did."""
    await opened(pod, mover)
    (pod.workspace / "file").write_text("kept")
    await archived(mover)
    await guard(mover, interval=3600)
    await keep(mover, final=True)
    pod.stop_keeper()
    private = [pod.private / name for name in ("stored.json", "grants.json", "guard.json")]
    for torn in (pod.gate / "word.json", pod.gate / "orders.json", *private):
        torn.write_bytes(rest)
    before = len(mover.reports)
    await mover.meet(pod.start_keeper)
    report = await mover.until_report(lambda r: len(mover.reports) > before and r["workspace"]["state"] == "Ready")
    assert report["gate"]["opened"] not in ("", "a" * 32), "somebody may have written: nobody may take it for unused"
    assert (report["archive"], report["kept"], report["guard"]) == (None, None, None)
    assert (await archived(mover, 2)).records.startswith(b'{"path":"file"')
    await mover.order(verb="open", challenge="a" * 32, word={"argv": [], "env": {}, "workingDir": "/"})
    await mover.until_report(lambda r: r["gate"]["opened"] == "a" * 32)


async def test_a_tree_that_changes_under_the_walk_gives_an_archive_that_is_whole(mover: FakeMover) -> None:
    with KeeperPod() as one:
        await opened(one, mover)
        churn = subprocess.Popen(
            ["/usr/bin/python3", "-c", CHURN, str(one.workspace)], user=AGENT_UID, group=AGENT_UID, extra_groups=[]
        )
        try:
            await eventually((one.workspace / "started").exists, "the tree changes")
            archives = [await archived(mover, sequence) for sequence in range(1, 6)]
        finally:
            churn.kill()
            churn.wait()
        one.stop_keeper()
    for received in archives:
        with KeeperPod() as other:
            report = await restored(other, mover, received.snapshot(1, 1))
            assert report["workspace"]["state"] == "Ready", report["workspace"]
            seen = trees.walk(other.workspace)
            assert sum(path.startswith(b"stable/") for path in seen) == 200
            assert b"root:" not in b"".join(read_files(other.workspace)), "no link was followed"


def read_files(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


async def test_a_mover_that_fails_says_why_and_a_new_order_tries_again(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    (pod.workspace / "file").write_bytes(os.urandom(4 * MIB))
    mover.fail_after_bytes = MIB
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    report = await mover.until_report(lambda r: r["archive"] and r["archive"]["state"] == "Failed")
    assert report["archive"]["code"] == "snapshot_too_large"
    assert report["archive"]["message"].endswith("too large")

    mover.fail_after_bytes = None
    mover.verdict = lambda _: {
        "type": "failed",
        "code": "snapshot_store_unavailable",
        "message": "m",
        "retryable": True,
    }
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await mover.until_report(lambda r: r["archive"]["code"] == "snapshot_store_unavailable")

    mover.verdict = mover.stored
    await archived(mover)


async def test_a_mover_that_goes_in_the_middle_is_tried_again_by_the_next_order(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await opened(pod, mover)
    (pod.workspace / "file").write_bytes(b"x")
    mover.verdict = lambda _: {"type": "unheard-of"}
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await mover.until_report(lambda r: r["archive"] and r["archive"]["code"] == "snapshot_store_unavailable")
    mover.verdict = mover.stored
    await archived(mover)


async def test_a_stored_sequence_is_not_sent_again_not_even_by_a_new_keeper(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await archived(mover)
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    pod.stop_keeper()
    report = await mover.meet(pod.start_keeper)
    assert report["archive"]["state"] == "Stored"
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await archived(mover, sequence=2)
    assert [received.grant for received in mover.received] == ["archive-1", "archive-2"]


async def test_sigterm_lets_a_running_archive_finish(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    for number in range(3000):
        (pod.workspace / f"file-{number}").write_bytes(os.urandom(2000))
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await mover.until_report(lambda r: r["archive"] and r["archive"]["state"] == "Running")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await eventually(pod.has_ended, "the keeper has ended")
    assert mover.received[0].done["files"] == 3000


async def test_sigterm_waits_for_the_order_to_archive_what_no_archive_has(pod: KeeperPod, mover: FakeMover) -> None:
    """Somebody deletes the pod: the kubelet ends the keeper a tenth of a second after the agent, before any order."""
    await opened(pod, mover)
    (pod.workspace / "file").write_text("work")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    mover.verdict = lambda _: {"type": "failed", "code": "snapshot_store_unavailable", "message": "", "retryable": True}
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Failed")
    mover.verdict = mover.stored
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await eventually(pod.has_ended, "the keeper has ended")
    assert [received.done["files"] for received in mover.received] == [1, 1]
    assert mover.report["archive"]["state"] == "Stored"


async def test_mounts_are_left_out(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    (pod.base / "outside").mkdir()
    (pod.base / "outside" / "not ours").write_text("x")
    (pod.workspace / "mounted").mkdir()
    subprocess.run(["mount", "--bind", str(pod.base / "outside"), str(pod.workspace / "mounted")], check=True)
    try:
        received = await archived(mover)
    finally:
        subprocess.run(["umount", str(pod.workspace / "mounted")], check=True)
    assert received.records == b""
    assert received.done["skipped"] == 1


BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            while True:
                time.sleep(0.01)
                try:
                    os.fork()
                except OSError:
                    open("full", "w").close()
    except OSError:
        open("full", "w").close()
"""


async def test_a_fork_bomb_stops_neither_the_archive_nor_the_end(mover: FakeMover) -> None:
    # A user of its own, since the limit counts all of a user's processes on this machine, the keeper's threads too.
    with KeeperPod(uid=23418, most_processes=120) as pod:
        pod.point_at(mover)
        await mover.meet(pod.start_keeper)
        pod.start_init()
        await mover.order(**prepare())
        challenge = await waiting_init(mover)
        await mover.until_report(lambda r: r["workspace"]["state"] == "Ready")
        await mover.order(verb="open", challenge=challenge, word=word(pod, "/usr/bin/python3", "-c", BOMB))
        await eventually((pod.workspace / "full").exists, "nobody can start a process any more")
        await keep(mover, final=False)
        await guard(mover, size=1 << 40, limit=1 << 41, interval=1)
        await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Stored")
        with (pod.workspace / "data").open("wb") as file:
            file.write(os.urandom(8 * MIB))
        await archived(mover)
        await mover.order(verb="end", graceSeconds=1)
        report = await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
        assert report["agent"]["exitCode"] == 137
        await archived(mover, mover.highest + 1)


async def test_an_archive_that_is_too_large_ends_early_when_the_order_says_so(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    (pod.workspace / "hole").touch()
    os.truncate(pod.workspace / "hole", 1 << 30)
    await mover.order(verb="archive", sequence=1, final=True, grant="g", maxBytes=(1 << 30) - 1)
    report = await mover.until_report(lambda r: r["archive"] and r["archive"]["state"] == "Failed")
    assert report["archive"]["code"] == "snapshot_too_large"
    assert "spec.snapshot.maxBytes" in report["archive"]["message"]
    assert mover.received == []
