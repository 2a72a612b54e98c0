"""The connections to movers over real TLS on loopback: who proves whom, silence, retries, merging."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sandhold.cluster import certificates
from sandhold.cluster.mover_link import MoverLink, Times
from sandhold.cluster.movers import MoverConnections
from sandhold.desired.plan import Fence
from sandhold.desired.world import SlotHistory, StoreTrouble, Unknown
from sandhold.errors import UnavailableError
from sandhold.heartbeats import Heartbeats
from sandhold.mover.wire import PeerGoneError
from testkit.reports import wire_report
from testkit.scripted_mover import ScriptedMover, keeper_message, new_authority, operator_tls, scripted_movers

AUTHORITY = new_authority()
POD = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
QUICK = Times(connect=2, ping_after=20, hang_up_after=60, first_retry=0.01, last_retry=0.05)
MANIFEST = {
    "epoch": 3,
    "sequence": 0,
    "kind": "Fence",
    "final": False,
    "parent": None,
    "key": "k",
    "digest": "ab" * 32,
    "bytes": 0,
    "storedBytes": 0,
    "files": 0,
    "createdAt": "2026-03-01T12:00:00Z",
}
FENCE = Fence("main", "slot-1", 3, None, POD)


@contextlib.asynccontextmanager
async def connected(*movers: ScriptedMover, times: Times = QUICK, **settings: Any) -> AsyncIterator[MoverConnections]:
    connections = MoverConnections(operator_tls(AUTHORITY), times=times, **settings)
    connections.set_endpoints(mover.address for mover in movers)
    task = asyncio.create_task(connections.run())
    try:
        yield connections
        assert not task.done(), "the links must not end by themselves"
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(claim: Callable[[], bool], seconds: float = 5) -> None:
    """Wait for a condition; a test that needs longer has failed."""
    async with asyncio.timeout(seconds):
        while not claim():  # noqa: ASYNC110 - the condition is spread over the code under test
            await asyncio.sleep(0.002)


async def test_keepers_of_all_movers_are_one_table() -> None:
    async with scripted_movers(AUTHORITY, 2) as (first, second):
        first.keepers = [keeper_message(POD, report=wire_report())]
        second.keepers = [keeper_message(OTHER)]
        async with connected(first, second) as connections:
            await until(lambda: connections.complete)
            keepers = connections.keepers()
            assert set(keepers) == {POD, OTHER}
            assert (keepers[OTHER].connected, keepers[OTHER].report) == (True, None)
            seen = keepers[OTHER].reported_at
            assert seen is not None
            assert abs((datetime.now(UTC) - seen).total_seconds()) < 30
            report = keepers[POD].report
            assert report is not None
            assert report.marker_slot == "slot-1"


async def test_counts_say_how_many_are_known_there_and_silent() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,):
        mover.keepers = [keeper_message(POD), keeper_message(OTHER)]
        async with connected(mover) as connections:
            await until(lambda: connections.complete)
            connections.set_endpoints([mover.address, "127.0.0.1:1"])
            await mover.tell(keeper_message(OTHER, connected=False))
            await until(lambda: not connections.keepers()[OTHER].connected)
            assert connections.counts() == {
                "movers": {"known": 2, "connected": 1, "synced": 1},
                "keepers": {"connected": 1, "silent": 1},
            }


async def test_a_quiet_link_is_a_sign_of_life_and_one_that_nobody_wants_any_more_is_not_missed() -> None:
    now = [0.0]
    heartbeats = Heartbeats(lambda: now[0])
    times = Times(connect=2, ping_after=0.05, hang_up_after=60, first_retry=0.01, last_retry=0.05)
    async with (
        scripted_movers(AUTHORITY, 1) as (mover,),
        connected(mover, times=times, heartbeats=heartbeats) as connections,
    ):
        await until(lambda: connections.complete)
        now[0] += 1000
        await until(lambda: not heartbeats.late())
        connections.set_endpoints([])
        await until(lambda: set(heartbeats._beats) == {"movers"})
        now[0] += 1000
        assert heartbeats.late() == []


async def test_a_change_is_called_back_once_and_a_repetition_not() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        changed: list[str] = []
        connections.subscribe(changed.append)
        await until(lambda: connections.complete)
        for _ in range(3):
            await mover.tell(keeper_message(POD, report=wire_report()))
        await mover.tell(keeper_message(OTHER))
        await until(lambda: OTHER in connections.keepers())
        assert changed == [POD, OTHER]


async def test_a_keeper_that_leaves_is_silent_with_its_last_report_and_then_forgotten() -> None:
    async with (
        scripted_movers(AUTHORITY, 1) as (mover,),
        connected(mover, silent_seconds=0.2) as connections,
    ):
        mover.keepers = []
        await until(lambda: connections.complete)
        await mover.tell(keeper_message(POD, report=wire_report()))
        await until(lambda: POD in connections.keepers())
        changed: list[str] = []
        connections.subscribe(changed.append)
        await mover.tell(keeper_message(POD, connected=False))
        await until(lambda: not connections.keepers()[POD].connected)
        assert connections.keepers()[POD].report is not None
        await until(lambda: POD not in connections.keepers())
        assert changed == [POD, POD]


async def test_since_when_a_keeper_is_there_without_a_break_is_known() -> None:
    """What an agent that never says that it ended is archived by: without it, its stop would wait for ever."""
    async with scripted_movers(AUTHORITY, 2) as (first, second), connected(first, second) as connections:
        await until(lambda: connections.complete)
        await first.tell(keeper_message(POD))
        await until(lambda: POD in connections.keepers())
        since = connections.keepers()[POD].connected_since
        assert since is not None
        await second.tell(keeper_message(POD, report=wire_report()))
        await until(lambda: connections.keepers()[POD].report is not None)
        assert connections.keepers()[POD].connected_since == since
        await first.tell(keeper_message(POD, connected=False))
        await second.tell(keeper_message(POD, connected=False))
        await until(lambda: not connections.keepers()[POD].connected)
        assert connections.keepers()[POD].connected_since is None
        await first.tell(keeper_message(POD, report=wire_report()))
        await until(lambda: connections.keepers()[POD].connected)
        again = connections.keepers()[POD].connected_since
        assert again is not None
        assert again > since


async def test_keepers_of_a_mover_that_hangs_up_are_silent_until_it_is_back() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,):
        mover.keepers = [keeper_message(POD, report=wire_report())]
        async with connected(mover) as connections:
            await until(lambda: connections.complete)
            seen: list[bool] = []
            connections.subscribe(lambda uid: seen.append(connections.keepers()[uid].connected))
            mover.hang_up()
            await until(lambda: seen == [False, True])
            assert mover.connections == 2


async def test_a_mover_that_was_replaced_is_dropped_with_its_keepers() -> None:
    async with scripted_movers(AUTHORITY, 2) as (old, new):
        old.keepers = [keeper_message(POD)]
        async with connected(old) as connections:
            await until(lambda: connections.complete)
            connections.set_endpoints([new.address])
            await until(lambda: connections.complete and not connections.keepers()[POD].connected)
            await new.tell(keeper_message(POD))
            await until(lambda: connections.keepers()[POD].connected)


async def test_a_keeper_that_moves_is_never_shown_as_gone() -> None:
    async with scripted_movers(AUTHORITY, 2) as (old, new), connected(old, new) as connections:
        await until(lambda: connections.complete)
        await old.tell(keeper_message(POD))
        await until(lambda: POD in connections.keepers())
        await new.tell(keeper_message(POD, report=wire_report()))
        await until(lambda: connections.keepers()[POD].report is not None)
        seen: list[bool] = []
        connections.subscribe(lambda uid: seen.append(connections.keepers()[uid].connected))
        await old.tell(keeper_message(POD, connected=False))
        await old.tell(keeper_message(OTHER))
        await until(lambda: OTHER in connections.keepers())
        assert connections.keepers()[POD].connected
        assert seen == [True]
        await connections.order(POD, {"verb": "end", "graceSeconds": 1})
        assert [request["verb"] for request in new.requests] == ["order"]
        assert old.requests == []


async def test_an_order_goes_to_the_mover_that_holds_the_keeper() -> None:
    async with scripted_movers(AUTHORITY, 2) as (first, second):
        second.keepers = [keeper_message(POD)]
        async with connected(first, second) as connections:
            await until(lambda: connections.complete)
            await connections.order(POD, {"verb": "end", "graceSeconds": 10})
            assert first.requests == []
            assert second.requests[0]["podUid"] == POD
            assert second.requests[0]["order"] == {"verb": "end", "graceSeconds": 10}


async def test_an_order_that_nobody_can_carry_is_unavailable() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        with pytest.raises(UnavailableError, match=POD):
            await connections.order(POD, {"verb": "end"})
        await mover.tell(keeper_message(POD))
        await until(lambda: POD in connections.keepers())
        mover.answer = lambda _: {
            "ok": False,
            "error": {"code": "keeper_absent", "message": "gone", "retryable": True},
        }
        with pytest.raises(UnavailableError, match="keeper_absent"):
            await connections.order(POD, {"verb": "end"})


async def test_a_question_goes_on_to_another_mover_when_one_does_not_answer() -> None:
    async with scripted_movers(AUTHORITY, 2) as (mute, other):
        mute.answer = lambda _: None
        other.answer = lambda _: {"ok": True, "result": {"head": None, "content": None}}
        async with connected(mute, other, question_seconds=0.1) as connections:
            await until(lambda: connections.complete)
            for _ in range(2):
                assert await connections.history("main", "slot-1") == SlotHistory(None, None)
            assert len(mute.requests) == 1
            assert len(other.requests) == 2


async def test_without_a_mover_the_history_is_unknown_and_a_fence_unavailable() -> None:
    async with connected() as connections:
        assert isinstance(await connections.history("main", "slot-1"), Unknown)
        assert not connections.complete
        with pytest.raises(UnavailableError):
            await connections.fence(FENCE)


async def test_a_refusal_of_the_store_is_trouble_with_its_code() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        error = {"code": "invalid_snapshot", "message": "MAC\x00 differs", "retryable": False}
        mover.answer = lambda _: {"ok": False, "error": error}
        trouble = StoreTrouble("invalid_snapshot", "MAC differs", retryable=False)
        assert await connections.history("main", "slot-1") == trouble
        assert await connections.fence(FENCE) == trouble


async def test_a_fence_counts_only_with_the_manifest_that_proves_it() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        mover.answer = lambda _: {"ok": True, "result": {"head": MANIFEST}}
        assert await connections.fence(FENCE) is None
        assert mover.requests[-1]["parent"] is None
        mover.answer = lambda _: {"ok": True, "result": {"head": {**MANIFEST, "epoch": 4}}}
        with pytest.raises(UnavailableError, match="epoch"):
            await connections.fence(FENCE)
        mover.answer = lambda _: {"ok": True, "result": {}}
        with pytest.raises(UnavailableError, match="not usable"):
            await connections.fence(FENCE)


async def test_nonsense_about_the_store_is_unknown_and_never_an_empty_history() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        for answer in ({"ok": True, "result": []}, {"ok": True, "result": {"head": 1}}, {"ok": "yes"}, {}):
            mover.answer = lambda _, answer=answer: answer  # type: ignore[misc]
            assert isinstance(await connections.history("main", "slot-1"), Unknown)


async def test_a_request_in_flight_ends_when_the_mover_hangs_up() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        mover.answer = lambda _: None
        asking = asyncio.create_task(connections.history("main", "slot-1"))
        await until(lambda: bool(mover.requests))
        await mover.stop()
        async with asyncio.timeout(2):
            assert isinstance(await asking, Unknown)


async def test_a_silent_mover_is_pinged_and_then_given_up() -> None:
    times = Times(connect=2, ping_after=0.05, hang_up_after=0.3, first_retry=0.01, last_retry=0.05)
    async with scripted_movers(AUTHORITY, 1) as (mover,):
        mover.keepers = [keeper_message(POD)]
        async with connected(mover, times=times) as connections:
            await until(lambda: connections.complete)
            await until(lambda: mover.connections == 2)
            assert mover.pings >= 2


async def test_a_malformed_report_counts_as_not_given_and_the_connection_stays() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        await mover.tell(keeper_message(POD, report=wire_report()))
        await mover.tell(keeper_message(POD, report=wire_report(gate="open")))
        await mover.tell(keeper_message(OTHER))
        await until(lambda: OTHER in connections.keepers())
        assert connections.keepers()[POD].report is None
        assert connections.keepers()[POD].connected
        assert mover.connections == 1


async def test_a_mover_that_breaks_the_protocol_is_dialled_again() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        await mover.tell({"type": "keeper", "podUid": "../x", "connected": True})
        await until(lambda: mover.connections == 2)
        await until(lambda: connections.complete)


async def test_a_server_of_another_ca_or_name_is_not_believed() -> None:
    stranger = ScriptedMover(new_authority())
    client = certificates.make_operator_leaf(AUTHORITY, datetime.now(UTC), certificates.new_key())
    misnamed = ScriptedMover(AUTHORITY, client)
    for mover in (stranger, misnamed):
        mover.keepers = [keeper_message(POD)]
        await mover.start()
    try:
        async with connected(stranger, misnamed) as connections:
            await asyncio.sleep(0.3)
            assert not connections.keepers()
            assert isinstance(await connections.history("main", "slot-1"), Unknown)
    finally:
        for mover in (stranger, misnamed):
            await mover.stop()


async def test_a_mover_that_comes_back_later_is_found_again() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,):
        port = int(mover.address.rpartition(":")[2])
        await mover.stop()
        async with connected(mover) as connections:
            await asyncio.sleep(0.1)
            assert not connections.complete
            await mover.start(port)
            await until(lambda: connections.complete)


async def test_a_pod_that_will_not_be_quiet_wakes_its_session_now_and_then_and_its_last_word_is_told() -> None:
    async with scripted_movers(AUTHORITY, 1) as (mover,), connected(mover) as connections:
        await until(lambda: connections.complete)
        told: list[str] = []
        connections.subscribe(lambda uid: told.append(connections.keepers()[uid].report.agent_message))  # type: ignore[union-attr]
        for number in range(400):
            agent = {"state": "Running", "message": str(number)}
            await mover.tell(keeper_message(POD, report=wire_report(agent=agent)))
        await until(lambda: told[-1:] == ["399"])
        assert len(told) < 60


async def test_a_link_that_is_withdrawn_while_its_mover_hangs_up_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout: the connection breaks in the very moment in which its address goes."""
    gone = asyncio.Event()

    async def read(_link: MoverLink, _reader: asyncio.StreamReader) -> None:
        await gone.wait()
        raise PeerGoneError("the peer closed the connection")

    monkeypatch.setattr(MoverLink, "_read", read)
    async with scripted_movers(AUTHORITY, 1) as (mover,):
        link = MoverLink(mover.address, operator_tls(AUTHORITY), MoverConnections(operator_tls(AUTHORITY)), QUICK)
        running = asyncio.create_task(link.run())
        await until(lambda: link.live)
        gone.set()
        running.cancel()
        await asyncio.wait({running}, timeout=1)
        assert running.cancelled()
