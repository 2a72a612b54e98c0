"""A mover that is killed under a transfer, and another one that finishes: nothing half visible, nothing lost.

The real keeper, real movers, a real S3; the kill comes at a byte, not at a time.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from testkit import trees
from testkit.fault_matrix import FaultMatrix, Where
from testkit.keeper_pod import AGENT_UID, KeeperPod
from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.mover_road import MoverRoad
from testkit.real_keeper import KeeperOrders, keeper_at_home, orders_through
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer

MIB = 1 << 20
SIZE = 24 * MIB
Movers = tuple[MoverProcess, MoverProcess]


@pytest.fixture
def movers(two_movers: Movers, own_s3: S3Server) -> Movers:
    for mover in two_movers:
        mover.use(own_s3)
        mover.start()
    return two_movers


@asynccontextmanager
async def at_home(movers: Movers, pod: Pod) -> AsyncIterator[tuple[MoverRoad, KeeperPod, KeeperOrders]]:
    """A keeper on the road to the first mover."""
    async with (
        MoverRoad(movers[0].keeper_port).open() as road,
        keeper_at_home(movers[0], pod, road.port) as (folders, operator),
    ):
        yield road, folders, operator


async def working(operator: KeeperOrders, folders: KeeperPod) -> None:
    """An agent at work, whose first state is archived."""
    assert (await operator.prepare(1))["workspace"]["state"] == "Ready"
    await operator.open_gate(folders)
    trees.build(trees.ODD, folders.workspace, AGENT_UID)
    archive = await operator.archive(1, 1, final=False)
    assert (archive["state"], archive["sequence"]) == ("Stored", 1), archive
    content = {b"big": trees.File(((0, os.urandom(SIZE)),)), b"small": trees.File(((0, b"small"),))}
    trees.build(content, folders.workspace, AGENT_UID)


def generations(s3: S3Server, pod: Pod) -> list[str]:
    folder = f"sandboxes/test-installation/{pod.slot}/"
    names = [key.removeprefix(folder) for key in s3.list_keys(folder)]
    return [name.replace("0000000", "") for name in names if not name.startswith("layers/")]


def layers(s3: S3Server, pod: Pod) -> int:
    return len(s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/"))


async def brought_back(
    mover: MoverProcess, pod: Pod, other: Pod, expected: dict[bytes, trees.Seen]
) -> dict[bytes, trees.Seen]:
    """What a walker sees in another pod."""
    async with keeper_at_home(mover, Pod(other.uid, pod.slot, other.token)) as (folders, operator):
        report = await operator.prepare(2, (1, 2))
        assert report["workspace"]["state"] == "Ready", report
        return await trees.walk_after_restore(folders.workspace, expected)


async def head(mover: MoverProcess, pod: Pod) -> Any:
    async with mover.operator() as operator:
        answer = await operator.ask("head", store="main", slot=pod.slot)
    return answer["result"]["content"]["sequence"]


@pytest.mark.parametrize(("percent", "uploads"), [(10, 0), (50, 1), (90, 1)])
async def test_a_mover_killed_under_an_archive(  # noqa: PLR0917 - fixtures and parameters
    movers: Movers,
    own_s3: S3Server,
    pod: Pod,
    reviews: TokenReviewServer,
    matrix: FaultMatrix,
    percent: int,
    uploads: int,
) -> None:
    first, second = movers
    async with at_home(movers, pod) as (road, folders, operator):
        await working(operator, folders)
        before = trees.walk(folders.workspace)
        stop = road.stop_after("up", SIZE * percent // 100)
        await operator.order_archive(1, 2)
        await stop.reached()
        await eventually(lambda: len(own_s3.uploads()) == uploads)
        fault = matrix.begin(f"mover killed at {percent} % of an archive", Where.PROCESS)
        first.kill()
        road.lead_to(second.keeper_port)
        async with orders_through(second, pod) as again:
            failed = await again.archive_ended()
            assert (failed["state"], failed["code"]) == ("Failed", "snapshot_store_unavailable"), failed
            # Nothing half visible: what was there is what there is.
            assert generations(own_s3, pod) == ["001-001"]
            assert await head(second, pod) == 1
            stored = await again.archive(1, 2)
        assert (stored["state"], stored["sequence"]) == ("Stored", 2), stored
    assert generations(own_s3, pod) == ["001-001", "001-002"]
    # What the killed mover left behind, counted: parts that the bucket's lifecycle rule takes, and no layer.
    assert (len(own_s3.uploads()), layers(own_s3, pod)) == (uploads, 2)
    after = await brought_back(second, pod, new_pod(reviews), before)
    fault.judge_workspace(before, after, is_same_pod=False)


async def test_a_mover_killed_after_it_had_stored_and_before_it_said_so(
    movers: Movers, own_s3: S3Server, pod: Pod, reviews: TokenReviewServer, matrix: FaultMatrix
) -> None:
    first, second = movers
    async with at_home(movers, pod) as (road, folders, operator):
        await working(operator, folders)
        before = trees.walk(folders.workspace)
        stop = road.stop_after("up", SIZE * 9 // 10)
        await operator.order_archive(1, 2)
        await stop.reached()
        road.stop_after("down", 0)
        stop.lift()
        await eventually(lambda: generations(own_s3, pod) == ["001-001", "001-002"])
        fault = matrix.begin("mover killed after it had stored an archive and before it said so", Where.PROCESS)
        first.kill()
        road.lead_to(second.keeper_port)
        async with orders_through(second, pod) as again:
            assert (await again.archive_ended())["state"] == "Failed"
            stored = await again.archive(1, 2)
    # The answer that was lost: the archive is the same, and so is its number.
    assert (stored["state"], stored["sequence"]) == ("Stored", 2), stored
    assert generations(own_s3, pod) == ["001-001", "001-002"]
    await eventually(lambda: layers(own_s3, pod) == 2)
    after = await brought_back(second, pod, new_pod(reviews), before)
    fault.judge_workspace(before, after, is_same_pod=False)


@pytest.mark.parametrize("percent", [10, 50, 90])
async def test_a_mover_killed_under_a_restore(
    movers: Movers, pod: Pod, reviews: TokenReviewServer, matrix: FaultMatrix, percent: int
) -> None:
    first, second = movers
    async with at_home(movers, pod) as (_, folders, operator):
        await working(operator, folders)
        before = trees.walk(folders.workspace)
        assert (await operator.archive(1, 2))["state"] == "Stored"
    other = new_pod(reviews)
    successor = Pod(other.uid, pod.slot, other.token)
    async with at_home(movers, successor) as (road, folders, operator):
        stop = road.stop_after("down", SIZE * percent // 100)
        await operator.order_prepare(2, (1, 2))
        await stop.reached()
        fault = matrix.begin(f"mover killed at {percent} % of a restore", Where.PROCESS)
        first.kill()
        road.lead_to(second.keeper_port)
        async with orders_through(second, successor) as again:
            failed = await again.until(lambda report: report["workspace"]["state"] == "Failed")
            assert failed["workspace"]["code"] == "snapshot_store_unavailable", failed
            # A workspace is whole or empty, and no marker vouches for it before it is whole.
            assert failed["marker"] is None
            assert trees.walk(folders.workspace) == {}
            await again.order_prepare(2, (1, 2))
            report = await again.until(lambda report: report["workspace"]["state"] == "Ready")
        assert report["marker"]["source"] == {"epoch": 1, "sequence": 2}
        after = await trees.walk_after_restore(folders.workspace, before)
        fault.judge_workspace(before, after, is_same_pod=False)
