"""Entries and archives: what stays out of one, what is written anew over one, and what the agent left that is kept."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit import trees
from testkit.fake_mover import FakeMover, Snapshot
from testkit.keeper_entries import content_of, copy_entry, file_entry, folder_entry, mode_of, preparing, settled
from testkit.keeper_pod import AGENT_UID, KeeperPod
from testkit.keeper_stories import archived, waiting_init, word
from testkit.kubelet_volume import show
from testkit.trees import File, Tree

# ruff: noqa: ASYNC221  # the tools that a test waits for are the test

AGENTS_WORK: Tree = {b"notes": File(((0, b"work"),))}
"""What the agent of the tests below leaves beside the entries."""


async def archived_with(entries: list[dict[str, Any]], mover: FakeMover, agent: Callable[[Path], Any]) -> Snapshot:
    """The archive of a workspace that began with entries, after the agent worked in it."""
    with KeeperPod() as pod:
        show(pod.sources / "s", {"key": b"old", "more": b"old"})
        await preparing(pod, mover, entries)
        assert (await settled(mover))["state"] == "Ready"
        (pod.hints / "init.json").write_text(json.dumps({"challenge": "a" * 32, "state": "Waiting", "exitCode": 0}))
        challenge = await waiting_init(mover)
        await mover.order(verb="open", challenge=challenge, word=word(pod))
        await mover.until_report(lambda report: report["gate"]["opened"])
        trees.build(AGENTS_WORK, pod.workspace, AGENT_UID)
        agent(pod.workspace)
        # The note of the paths outlives the process that prepared the workspace.
        pod.stop_keeper()
        await mover.meet(pod.start_keeper)
        return (await archived(mover)).snapshot(1, 1)


async def restored_with(
    entries: list[dict[str, Any]], pod: KeeperPod, mover: FakeMover, snapshot: Snapshot, *, writes: bool = True
) -> dict[str, Any]:
    """How the preparation of a workspace from an archive went, with these entries in the spec now."""
    mover.snapshots["restore"] = snapshot
    show(pod.sources / "s", {"key": b"new", "more": b"new"})
    source = {"epoch": 1, "sequence": 1}
    await preparing(pod, mover, entries, epoch=2, source=source, grant="restore", writeEntries=writes)
    return await settled(mover)


def nothing(_: Path) -> None:
    pass


async def test_ephemeral_entries_stay_out_of_archives_and_are_written_anew(mover: FakeMover) -> None:
    entries = [
        file_entry("kept", b"kept"),
        copy_entry("conf/token", "s", "key", ephemeral=True),
        copy_entry("keys", "s", ephemeral=True),
        folder_entry("cache", ephemeral=True),
    ]

    def work(root: Path) -> None:
        (root / "cache/large").write_bytes(bytes(1 << 20))
        (root / "keys/more").write_text("changed")
        (root / "conf/own").write_text("work")

    snapshot = await archived_with(entries, mover, work)
    recorded = [json.loads(line)["path"] for line in snapshot.records.splitlines()]
    assert recorded == ["conf", "conf/own", "kept", "notes"]
    assert b"old" not in subprocess.run(["zstd", "-dc"], input=snapshot.layer, capture_output=True, check=True).stdout

    for writes in (True, False):
        with KeeperPod() as other:
            assert (await restored_with(entries, other, mover, snapshot, writes=writes))["state"] == "Ready"
            assert content_of(other.workspace) == {
                "kept": b"kept",
                "notes": b"work",
                "conf/own": b"work",
                "conf/token": b"new",
                "keys/key": b"new",
                "keys/more": b"new",
            }
            assert (other.workspace / "cache").is_dir()


async def test_a_second_name_that_the_agent_gives_a_copy_is_its_work(pod: KeeperPod, mover: FakeMover) -> None:
    entries = [copy_entry("token", "s", "key", ephemeral=True)]
    snapshot = await archived_with(entries, mover, lambda root: (root / "second").hardlink_to(root / "token"))
    assert (await restored_with(entries, pod, mover, snapshot))["state"] == "Ready"
    assert content_of(pod.workspace) == {"notes": b"work", "token": b"new", "second": b"old"}


async def test_an_agents_work_in_the_place_of_an_entry_is_kept(pod: KeeperPod, mover: FakeMover) -> None:
    entries = [
        file_entry("changed"),
        file_entry("gone"),
        file_entry("folder"),
        file_entry("link"),
        file_entry("below/file"),
        copy_entry("keys", "s"),
        folder_entry("open", 0o755),
    ]

    def work(root: Path) -> None:
        (root / "changed").write_text("work")
        for name in ("gone", "folder", "link"):
            (root / name).unlink()
        (root / "folder").mkdir()
        (root / "link").symlink_to("notes")
        shutil.rmtree(root / "below")
        (root / "below").write_text("a file now")
        (root / "keys/key").unlink()
        (root / "open").chmod(0o700)

    snapshot = await archived_with(entries, mover, work)
    added = [*entries, file_entry("added"), copy_entry("added-keys", "s")]
    workspace = await restored_with(added, pod, mover, snapshot)
    assert workspace["state"] == "Ready", workspace["message"]
    assert content_of(pod.workspace) == {
        "notes": b"work",
        "changed": b"work",
        "gone": b"x",
        "link": b"work",
        "below": b"a file now",
        "keys/more": b"old",
        "added": b"x",
        "added-keys/key": b"new",
        "added-keys/more": b"new",
    }
    assert (pod.workspace / "link").is_symlink()
    assert (pod.workspace / "folder").is_dir()
    assert mode_of(pod.workspace / "open") == 0o700


async def test_a_source_that_no_entry_needs_any_more_is_not_waited_for(pod: KeeperPod, mover: FakeMover) -> None:
    snapshot = await archived_with([copy_entry("a", "s", "key")], mover, nothing)
    gone = [copy_entry("a", "gone", "key")]
    assert (await restored_with(gone, pod, mover, snapshot))["state"] == "Ready"
    assert content_of(pod.workspace) == {"a": b"old", "notes": b"work"}


async def test_after_a_lost_pod_no_other_entry_comes_back(pod: KeeperPod, mover: FakeMover) -> None:
    entries = [file_entry("gone"), folder_entry("tmp", ephemeral=True)]
    snapshot = await archived_with(entries, mover, lambda root: (root / "gone").unlink())
    assert (await restored_with(entries, pod, mover, snapshot, writes=False))["state"] == "Ready"
    assert sorted(path.name for path in pod.workspace.iterdir()) == ["notes", "tmp"]


async def test_an_entry_that_becomes_ephemeral_replaces_what_was_archived(pod: KeeperPod, mover: FakeMover) -> None:
    before = [
        copy_entry("a", "s", "key"),
        copy_entry("keys", "s"),
        folder_entry("conf"),
        file_entry("conf/b"),
        file_entry("c"),
    ]

    def work(root: Path) -> None:
        (root / "c").unlink()
        (root / "c").symlink_to("notes")
        (root / "conf").chmod(0o500)

    snapshot = await archived_with(before, mover, work)
    workspace = await restored_with([{**entry, "ephemeral": True} for entry in before], pod, mover, snapshot)
    assert workspace["state"] == "Ready", workspace["message"]
    assert content_of(pod.workspace) == {
        "notes": b"work",
        "a": b"new",
        "keys/key": b"new",
        "keys/more": b"new",
        "conf/b": b"x",
        "c": b"x",
    }
    assert not (pod.workspace / "c").is_symlink()


@pytest.mark.parametrize(
    ("entry", "work", "reason"),
    [
        (copy_entry("keys", "s", ephemeral=True), ["keys/own"], '"keys/own"'),
        (folder_entry("keys", ephemeral=True), ["keys/deep/own"], '"keys/deep"'),
        (file_entry("keys") | {"ephemeral": True}, ["keys/own"], "something else is in its place"),
        (folder_entry("notes", ephemeral=True), [], "something else is in its place"),
        (file_entry("notes/below") | {"ephemeral": True}, [], "something else is in its place"),
    ],
)
async def test_an_ephemeral_entry_takes_no_place_that_holds_work(
    pod: KeeperPod, mover: FakeMover, entry: dict[str, Any], work: list[str], reason: str
) -> None:
    def leave(root: Path) -> None:
        for name in work:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("work")

    snapshot = await archived_with([], mover, leave)
    workspace = await restored_with([entry], pod, mover, snapshot)
    assert (workspace["state"], workspace["code"]) == ("Failed", "workspace_setup_failed")
    assert "workspace.entries[0].path" in workspace["message"]
    assert reason in workspace["message"]
    assert list(pod.workspace.iterdir()) == []
