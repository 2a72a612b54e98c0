"""Archive here, restore there: what comes back is what was there, judged by a walker that is not the keeper."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from testkit import trees
from testkit.fake_mover import FakeMover
from testkit.keeper_pod import AGENT_UID, KeeperPod
from testkit.keeper_stories import archived, opened, restored, round_trip
from testkit.trees import MIB, ODD, Tree

# ruff: noqa: ASYNC221  # the tools that a test waits for are the test


@settings(
    max_examples=24,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(tree=trees.trees())
def test_any_tree_survives_the_round_trip(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    async def check() -> None:
        mover = FakeMover(tmp_path_factory.mktemp("tls"))
        await mover.start()
        try:
            before, after, _ = await round_trip(mover, tree)
        finally:
            await mover.stop()
        assert after == before
        assert mover.problems == []

    asyncio.run(check())


async def test_everything_odd_survives_the_round_trip(mover: FakeMover) -> None:
    before, after, received = await round_trip(mover, ODD)
    assert set(before) == set(ODD)
    assert after == before
    for name in (b"sparse", b"hole", b"ends with a hole"):
        assert trees.allocated(after[name].extents) <= trees.allocated(before[name].extents)
    assert trees.allocated(after[b"sparse"].extents) < MIB
    assert received.done["bytes"] == sum({seen.link_group: seen.size for seen in before.values() if seen.size}.values())


async def test_a_virtual_environment_still_works(mover: FakeMover) -> None:
    with KeeperPod() as one:
        await opened(one, mover)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(one.workspace / "venv")], check=True)
        subprocess.run(["chown", "-hR", f"{AGENT_UID}:{AGENT_UID}", str(one.workspace / "venv")], check=True)
        received = await archived(mover)
        one.stop_keeper()
    with KeeperPod() as other:
        await restored(other, mover, received.snapshot(1, 1))
        interpreter = str(other.workspace / "venv/bin/python")
        found = subprocess.run([interpreter, "-c", "import sys; print(sys.prefix)"], check=True, capture_output=True)
        assert Path(found.stdout.decode().strip()) == other.workspace / "venv"


async def test_the_layer_is_readable_with_tar_and_zstd_alone(mover: FakeMover, tmp_path: Path) -> None:
    before, _, received = await round_trip(mover, ODD)
    (tmp_path / "layer.tar.zst").write_bytes(received.layer)
    (tmp_path / "out").mkdir()
    command = ["tar", "--zstd", "-xpf", "layer.tar.zst", "-C", "out"]
    extracted = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert [line for line in extracted.stderr.splitlines() if "time stamp" not in line] == []
    # GNU tar restores nanoseconds and modes, but not the times of links.
    assert without_link_times(trees.walk(tmp_path / "out")) == without_link_times(before)


def without_link_times(seen: dict[bytes, trees.Seen]) -> dict[bytes, trees.Seen]:
    return {path: replace(one, mtime_ns=0) if one.kind == "symlink" else one for path, one in seen.items()}


async def test_paths_longer_than_any_one_call_takes(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    build_deep(pod.workspace, 120, "d" * 80)
    received = await archived(mover)
    records = received.records.splitlines()
    assert len(json.loads(records[-1])["path"]) > 2 * 4096
    pod.stop_keeper()
    with KeeperPod() as other:
        report = await restored(other, mover, received.snapshot(1, 1))
        assert report["workspace"]["state"] == "Ready", report["workspace"]
        assert read_deep(other.workspace) == (120, "at the bottom")


async def test_trees_deeper_than_descriptors_allow(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    build_deep(pod.workspace, 3000, "d")
    received = await archived(mover)
    pod.stop_keeper()
    with KeeperPod() as other:
        report = await restored(other, mover, received.snapshot(1, 1))
        assert report["workspace"]["state"] == "Ready", report["workspace"]
        assert read_deep(other.workspace) == (3000, "at the bottom")


def build_deep(root: Path, depth: int, name: str) -> None:
    script = f"""
import os
for _ in range({depth}):
    os.mkdir({name!r})
    os.chdir({name!r})
open("file", "w").write("at the bottom")
"""
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True)
    subprocess.run(["chown", "-R", f"{AGENT_UID}:{AGENT_UID}", str(root)], check=True)


def read_deep(root: Path) -> tuple[int, str]:
    script = """
import os
depth = 0
while (names := os.listdir(".")) != ["file"]:
    os.chdir(names[0])
    depth += 1
print(depth, open("file").read(), sep="|")
"""
    output = subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, text=True).stdout
    depth, text = output.strip().split("|")
    return int(depth), text
