"""A pod and a mover for tests that drive the real in-pod binary."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod


@pytest.fixture
def pod() -> Iterator[KeeperPod]:
    if os.geteuid() != 0:
        pytest.fail("these tests start processes as other users and in new namespaces: run them as root")
    with KeeperPod() as pod:
        yield pod


@pytest_asyncio.fixture
async def mover(tmp_path: Path) -> AsyncIterator[FakeMover]:
    mover = FakeMover(tmp_path / "tls")
    await mover.start()
    yield mover
    await mover.stop()
    assert mover.problems == []
