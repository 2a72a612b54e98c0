"""The commands of docs/reference/snapshot-format.md, exactly as they stand there, on the real keeper's archive."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit import trees
from testkit.keeper_pod import AGENT_UID
from testkit.mover_process import MAC_KEYS, MoverProcess, Pod
from testkit.real_keeper import keeper_at_home
from testkit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "snapshot-format.md"
PERSON = 12345
"""Whoever restores is neither root nor the agent."""


def commands() -> list[str]:
    """The shell blocks of the page's last section, in order."""
    section = PAGE.read_text().partition("\n## Restore by hand\n")[2]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder of a person's own, on a path that they may walk."""
    with tempfile.TemporaryDirectory(prefix="by-hand-") as name:
        os.chown(name, PERSON, PERSON)
        yield Path(name)


def follow(folder: Path, s3: S3Server, key: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Type all of it into a shell that stops at the first mistake."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "".join(commands())],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "ENDPOINT": s3.endpoint,
            "REGION": "us-east-1",
            "BUCKET": s3.bucket,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "KEY": key,
            "MAC_KEY": MAC_KEYS["keys"]["k1"],
            **environment,
        },
        user=PERSON,
        group=PERSON,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


async def archived(mover: MoverProcess, pod: Pod) -> tuple[dict[bytes, trees.Seen], str]:
    """What a walker saw of a workspace with everything odd in it, and the key of its archive."""
    async with keeper_at_home(mover, pod) as (folders, operator):
        await operator.prepare(3)
        await operator.open_gate(folders)
        trees.build(trees.ODD, folders.workspace, AGENT_UID)
        archive = await operator.archive(3, 2)
        assert (archive["state"], archive["sequence"]) == ("Stored", 2), archive
        return trees.walk(folders.workspace), f"sandboxes/test-installation/{pod.slot}/0000000003-0000000002"


async def test_a_workspace_comes_back_by_hand(mover: MoverProcess, s3: S3Server, pod: Pod, folder: Path) -> None:
    before, key = await archived(mover, pod)
    typed = follow(folder, s3, key)
    assert typed.returncode == 0, typed.stderr
    assert "layer.tar.zst: OK" in typed.stdout
    assert typed.stdout.rstrip().endswith("nobody has altered it")
    after = trees.walk(folder / "workspace")
    assert after == before
    assert {path: seen.size - trees.allocated(seen.extents) for path, seen in after.items() if path == b"sparse"} == {
        b"sparse": before[b"sparse"].size - trees.allocated(before[b"sparse"].extents)
    }


async def test_a_layer_that_was_altered_is_noticed_before_it_is_unpacked(
    mover: MoverProcess, s3: S3Server, pod: Pod, folder: Path
) -> None:
    _, key = await archived(mover, pod)
    [layer] = s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")
    s3.put(layer, s3.get(layer)[:-1] + b"x")
    typed = follow(folder, s3, key)
    assert typed.returncode != 0
    assert "layer.tar.zst: FAILED" in typed.stdout
    assert not (folder / "workspace").exists()


async def test_a_manifest_that_somebody_else_wrote_is_noticed(
    mover: MoverProcess, s3: S3Server, pod: Pod, folder: Path
) -> None:
    _, key = await archived(mover, pod)
    typed = follow(folder, s3, key, MAC_KEY="22" * 32)
    assert typed.returncode != 0
    assert "nobody has altered it" not in typed.stdout
