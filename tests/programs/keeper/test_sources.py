"""Entries that are copies: from volumes as the kubelet writes them, whole or not at all."""

import asyncio
import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_entries import content_of, copy_entry, file_entry, mode_of, preparing, settled
from testkit.keeper_pod import KeeperPod, eventually
from testkit.kubelet_volume import show, turn_over, version_of


async def test_keys_become_files_and_folders_with_their_modes(pod: KeeperPod, mover: FakeMover) -> None:
    show(pod.sources / "s1", {"agents.md": b"be kind", "other": b"not asked for"})
    show(pod.sources / "s2", {"id": b"\0\xff", "id.pub": b"public"})
    entries = [
        copy_entry("docs/AGENTS.md", "s1", "agents.md"),
        copy_entry(".keys", "s2", mode=0o600, folderMode=0o700),
        copy_entry("bin/run", "s1", "agents.md", mode=0o755),
    ]
    await preparing(pod, mover, entries)
    workspace = await settled(mover)
    assert (workspace["state"], workspace["files"], workspace["bytes"]) == ("Ready", 5, 22)
    assert content_of(pod.workspace) == {
        "docs/AGENTS.md": b"be kind",
        "bin/run": b"be kind",
        ".keys/id": b"\0\xff",
        ".keys/id.pub": b"public",
    }
    assert (mode_of(pod.workspace / "docs/AGENTS.md"), mode_of(pod.workspace / "bin/run")) == (0o644, 0o755)
    assert (mode_of(pod.workspace / ".keys"), mode_of(pod.workspace / ".keys/id")) == (0o700, 0o600)
    assert not any(path.is_symlink() for path in pod.workspace.rglob("*"))


async def test_a_source_that_is_missing_is_waited_for_and_named_by_its_place(pod: KeeperPod, mover: FakeMover) -> None:
    show(pod.sources / "empty", {})
    show(pod.sources / "lacks", {"other": b"x"})
    entries = [
        file_entry("a"),
        copy_entry("b", "absent", "key"),
        copy_entry("c", "empty"),
        copy_entry("d", "lacks", "key"),
    ]
    await preparing(pod, mover, entries)
    for place, source in ((1, "absent"), (2, "empty"), (3, "lacks")):
        report = await mover.until_report(lambda report, place=place: report["workspace"].get("waitingFor") == place)
        assert report["workspace"]["state"] == "Preparing"
        assert report["marker"] is None
        assert content_of(pod.workspace) == {}
        show(pod.sources / source, {"key": source.encode()})
    assert (await settled(mover))["state"] == "Ready"
    assert content_of(pod.workspace) == {"a": b"x", "b": b"absent", "c/key": b"empty", "d": b"lacks"}


async def test_a_keeper_that_starts_again_while_it_waits_begins_anew(pod: KeeperPod, mover: FakeMover) -> None:
    await preparing(pod, mover, [copy_entry("a", "late", "key")])
    await mover.until_report(lambda report: report["workspace"].get("waitingFor") == 0)
    pod.stop_keeper()
    await preparing(pod, mover, [copy_entry("a", "late", "key")])
    await mover.until_report(lambda report: report["workspace"].get("waitingFor") == 0)
    show(pod.sources / "late", {"key": b"here"})
    assert (await settled(mover))["state"] == "Ready"
    assert content_of(pod.workspace) == {"a": b"here"}


def lead_out(volume: Path) -> None:
    turn_over(volume, "/etc")


def lead_up(volume: Path) -> None:
    turn_over(volume, "..")


def lead_to_a_link(volume: Path) -> None:
    (volume / "..elsewhere").symlink_to("/etc")
    turn_over(volume, "..elsewhere")


def link_a_key(volume: Path) -> None:
    key = volume / str(version_of(volume)) / "key"
    key.unlink()
    key.symlink_to("/etc/passwd")


def pipe_a_key(volume: Path) -> None:
    key = volume / str(version_of(volume)) / "key"
    key.unlink()
    os.mkfifo(key)


def name_a_key_oddly(volume: Path) -> None:
    (volume / str(version_of(volume)) / "a b").write_text("x")


def grow(volume: Path) -> None:
    with (volume / str(version_of(volume)) / "key").open("wb") as file:
        file.truncate((16 << 20) + 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lead_out, "no volume of the kubelet's"),
        (lead_up, "no volume of the kubelet's"),
        (lead_to_a_link, "symbolic link"),
        (link_a_key, "symbolic link"),
        (pipe_a_key, "no regular file"),
        (name_a_key_oddly, "no name of a file"),
        (grow, "more than 16777216 bytes"),
    ],
)
async def test_what_is_no_plain_key_of_the_volume_is_refused(
    pod: KeeperPod, mover: FakeMover, spoil: Callable[[Path], None], reason: str
) -> None:
    show(pod.sources / "s", {"key": b"s3cret"})
    spoil(pod.sources / "s")
    await preparing(pod, mover, [file_entry("good"), copy_entry("a", "s")])
    workspace = await settled(mover)
    assert (workspace["state"], workspace["code"]) == ("Failed", "workspace_setup_failed")
    assert 'workspace.entries[1].path "a"' in workspace["message"]
    assert reason in workspace["message"]
    assert list(pod.workspace.iterdir()) == []


@pytest.mark.parametrize("source", ["", ".", "..", "../token", "/etc", "s/..data"])
async def test_a_source_is_one_folder_among_the_sources(pod: KeeperPod, mover: FakeMover, source: str) -> None:
    show(pod.sources / "s", {"key": b"x"})
    await preparing(pod, mover, [copy_entry("a", source)])
    assert "no usable name" in (await settled(mover))["message"]


async def test_all_sources_together_have_a_bound(pod: KeeperPod, mover: FakeMover) -> None:
    for name in ("s1", "s2"):
        show(pod.sources / name, {"key": bytes(9 << 20)})
    await preparing(pod, mover, [copy_entry("a", "s1", "key"), copy_entry("b", "s2", "key")])
    workspace = await settled(mover)
    assert 'workspace.entries[1].path "b"' in workspace["message"]
    assert "more than 16777216 bytes" in workspace["message"]


KEYS = [f"k{number}" for number in range(40)]
COPIES = 60


async def versions_copied(mover: FakeMover) -> set[bytes]:
    """The versions that a pod was given of a volume that changes all the time, each of which must be whole."""
    changing, version = True, 0

    def change() -> None:
        nonlocal version
        while changing:
            version += 1
            show(volume, dict.fromkeys(KEYS, str(version).encode()))

    with KeeperPod() as pod:
        volume = pod.sources / "s"
        show(volume, dict.fromkeys(KEYS, b"0"))
        writer = asyncio.create_task(asyncio.to_thread(change))
        try:
            await eventually(lambda: version > 1, "the volume changes")
            await preparing(pod, mover, [copy_entry(f"copy{number}", "s") for number in range(COPIES)])
            workspace = await settled(mover)
        finally:
            changing = False
            await writer
        assert workspace["state"] == "Ready", workspace["message"]
        seen = set()
        for number in range(COPIES):
            copied = content_of(pod.workspace / f"copy{number}")
            assert sorted(copied) == sorted(KEYS)
            assert len(set(copied.values())) == 1
            seen |= set(copied.values())
        return seen


async def test_keys_are_those_of_one_version_however_often_the_volume_changes(mover: FakeMover) -> None:
    for _ in range(5):
        # On a busy machine all copies may be made between two changes: then that proves nothing.
        if len(await versions_copied(mover)) > 1:
            return
    raise AssertionError("the volume never changed while it was copied")


async def test_two_entries_never_write_the_same_file(pod: KeeperPod, mover: FakeMover) -> None:
    show(pod.sources / "s", {"key": b"x"})
    await preparing(pod, mover, [copy_entry("a", "s"), file_entry("a/key")])
    assert 'workspace.entries[0] writes "a/key" too' in (await settled(mover))["message"]


async def test_content_of_sources_is_in_no_report_and_no_log(pod: KeeperPod, mover: FakeMover) -> None:
    show(pod.sources / "s", {"key": b"s3cret-content"})
    # The last one fails, so that there is an error which could tell it.
    await preparing(pod, mover, [copy_entry("a", "s", "key"), copy_entry("b", "s"), file_entry("b/key")])
    assert (await settled(mover))["state"] == "Failed"
    said = json.dumps(mover.reports) + pod.keeper_log()
    assert "workspace.entries[2]" in said
    for form in (b"s3cret-content", base64.b64encode(b"s3cret-content")):
        assert form.decode() not in said
