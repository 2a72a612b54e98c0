"""The operator's own links (`sandhold.cluster.movers`) against the real mover program and a real S3."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sandhold.cluster import pki
from sandhold.cluster.mover_link import Times
from sandhold.cluster.movers import MoverConnections
from sandhold.desired.plan import Fence
from sandhold.desired.world import SlotHistory, StoreTrouble, Unknown
from sandhold.errors import UnavailableError
from testkit.mover_process import MoverProcess
from testkit.reports import wire_report

QUICK = Times(first_retry=0.02, last_retry=0.1)


@contextlib.asynccontextmanager
async def linked(*movers: MoverProcess) -> AsyncIterator[MoverConnections]:
    """Connections to these movers, which have told of all their keepers."""
    authority = movers[0].installation.authority
    connections = MoverConnections(pki.OperatorTls(authority, lambda: datetime.now(UTC)), times=QUICK)
    connections.set_endpoints(f"127.0.0.1:{mover.operator_port}" for mover in movers)
    task = asyncio.create_task(connections.run())
    try:
        await until(lambda: connections.complete)
        yield connections
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(claim: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not claim():  # noqa: ASYNC110 - the condition is spread over the code under test
            await asyncio.sleep(0.005)


async def test_a_keeper_that_calls_home_is_seen_with_its_report_and_hears_its_orders(
    mover: MoverProcess, pod: Any
) -> None:
    async with linked(mover) as connections:
        assert pod.uid not in connections.keepers()
        async with mover.keeper("control", pod.token) as keeper:
            await keeper.say({"type": "report", "report": wire_report()})
            await until(lambda: pod.uid in connections.keepers() and connections.keepers()[pod.uid].report is not None)
            report = connections.keepers()[pod.uid].report
            assert report is not None
            assert (report.workspace_state, report.marker_epoch) == ("Ready", 3)
            await connections.order(pod.uid, {"verb": "end", "graceSeconds": 10})
            assert await keeper.hear() == {"type": "order", "order": {"verb": "end", "graceSeconds": 10}}
        await until(lambda: not connections.keepers()[pod.uid].connected)
        with pytest.raises(UnavailableError):
            await connections.order(pod.uid, {"verb": "end", "graceSeconds": 10})


async def test_an_operator_that_comes_later_is_told_of_keepers_that_are_there(mover: MoverProcess, pod: Any) -> None:
    async with mover.keeper("control", pod.token) as keeper:
        await keeper.say({"type": "report", "report": wire_report()})
        async with linked(mover) as connections:
            assert connections.keepers()[pod.uid].connected


async def test_a_slot_is_empty_then_fenced_and_a_stale_fence_is_refused(mover: MoverProcess, pod: Any) -> None:
    async with linked(mover) as connections:
        assert await connections.history("main", pod.slot) == SlotHistory(None, None)
        assert await connections.fence(Fence("main", pod.slot, 3, None, pod.uid)) is None
        assert await connections.fence(Fence("main", pod.slot, 3, None, pod.uid)) is None
        history = await connections.history("main", pod.slot)
        assert isinstance(history, SlotHistory)
        assert history.head is not None
        assert (history.head.epoch, history.head.sequence, history.head.kind) == (3, 0, "Fence")
        assert history.content is None
        trouble = await connections.fence(Fence("main", pod.slot, 2, None, pod.uid))
        assert isinstance(trouble, StoreTrouble)
        assert (trouble.code, trouble.retryable) == ("stale_generation", False)


async def test_a_fence_over_content_that_is_gone_is_manifest_missing_and_never_an_empty_slot(
    mover: MoverProcess, pod: Any
) -> None:
    async with linked(mover) as connections:
        await connections.fence(Fence("main", pod.slot, 3, (2, 1), pod.uid))
        trouble = await connections.history("main", pod.slot)
        assert isinstance(trouble, StoreTrouble)
        assert (trouble.code, trouble.retryable) == ("manifest_missing", False)


async def test_an_unknown_store_is_trouble(mover: MoverProcess, pod: Any) -> None:
    async with linked(mover) as connections:
        trouble = await connections.history("nowhere", pod.slot)
        assert isinstance(trouble, StoreTrouble)
        assert trouble.code == "snapshot_store_unavailable"


async def test_a_mover_that_is_killed_and_comes_back_is_found_again(own_mover: MoverProcess, s3: Any, pod: Any) -> None:
    own_mover.use(s3)
    own_mover.start()
    async with linked(own_mover) as connections:
        own_mover.kill()
        await until(lambda: not connections.complete)
        assert isinstance(await connections.history("main", pod.slot), Unknown)
        own_mover.start()
        await until(lambda: connections.complete)
        assert await connections.history("main", pod.slot) == SlotHistory(None, None)
