"""An agent at the keepers' port: it floods it from its keeper's address, and it speaks as a keeper."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sandhold.mover.wire import PeerGoneError
from testkit.fault_matrix import FaultMatrix, Where
from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.mover_road import MoverRoad
from testkit.pki import Installation
from testkit.reports import wire_report
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import Peer, dialled, file_record, hello

MIB = 1 << 20
RECORDS = [file_record("f", b"x")]
FLOODERS_OF_A_KIND = 60
MOST_MIB_OF_A_FLOOD = 64
"""Mostly what the allocator keeps of connections that are gone; it stays there however long the flood goes on."""
Conn = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Flood:
    """Connections of every useless kind, each opened anew as soon as the mover has closed it."""

    def __init__(self, mover: MoverProcess) -> None:
        self._port = mover.keeper_port
        self._tls = mover.installation.keeper_tls()
        self.opened = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Flood"]:
        """Flood for as long as the context lasts."""
        kinds = (self._idle, self._half_a_handshake, self._slow, self._garbage, self._never_proven, self._invented)
        tasks = [asyncio.create_task(self._again_and_again(kind)) for kind in kinds for _ in range(FLOODERS_OF_A_KIND)]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _again_and_again(self, kind: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, PeerGoneError):
                await kind()
            await asyncio.sleep(0.05)  # the pace of the flood; some 2,000 connections a second is what it tries

    @asynccontextmanager
    async def _connected(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Conn]:
        name = None if tls is None else "sandhold-mover"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=tls, server_hostname=name)
        self.opened += 1
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _idle(self) -> None:
        async with self._connected() as (reader, _):
            await reader.read(1)

    async def _half_a_handshake(self) -> None:
        async with self._connected() as (reader, writer):
            writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            await reader.read(1)

    async def _slow(self) -> None:
        async with self._connected(self._tls) as (_, writer):
            for byte in b"\x00\x00\x10\x00J" + b" " * 4096:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)  # as slow as it means to be

    async def _garbage(self) -> None:
        async with self._connected(self._tls) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: mover\r\n\r\n" * 100)
            await reader.read(1)

    async def _never_proven(self) -> None:
        async with self._connected(self._tls) as (reader, _):
            await reader.read(1)

    async def _invented(self) -> None:
        async with self._connected(self._tls) as (reader, writer):
            await Peer(reader, writer).say(hello("control", "aaaa.bbbb.cccc"))
            await reader.read(1000)


def highest_mib(mover: MoverProcess) -> float:
    status = Path(f"/proc/{mover.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024


async def archived(mover: MoverProcess, pod: Pod, size: int) -> dict[str, Any]:
    """An archive by a keeper that dials again, as ours does, until it is let in."""
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    layer = bytes(range(256)) * (size // 256)
    async with asyncio.timeout(90):
        while True:
            try:
                async with mover.keeper("archive", pod.token, grant) as peer:
                    await peer.send_archive(layer, RECORDS)
                    return await peer.hear()
            except (OSError, PeerGoneError):
                await asyncio.sleep(0.1)  # a keeper's back-off


async def test_a_flood_from_the_keepers_own_address_ends_no_archive_and_costs_bounded_memory(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod, reviews: TokenReviewServer, matrix: FaultMatrix
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    assert (await archived(own_mover, new_pod(reviews), 48 * MIB))["type"] == "stored"
    async with own_mover.keeper("control", pod.token) as control, own_mover.operator() as operator:
        before = highest_mib(own_mover)
        fault = matrix.begin("agent floods the mover's port while its keeper archives", Where.PROCESS)
        async with Flood(own_mover).running() as flood:
            async with asyncio.timeout(60):
                while flood.opened < 500:  # noqa: ASYNC110 - the flood has no event for it
                    await asyncio.sleep(0.02)
            stored = await archived(own_mover, pod, 48 * MIB)
            # What is connected stays connected, both ways.
            await control.say({"type": "report", "report": wire_report()})
            order = {"verb": "end", "graceSeconds": 1}
            assert (await operator.ask("order", podUid=pod.uid, order=order))["ok"] is True
            assert await control.hear() == {"type": "order", "order": order}
        assert flood.opened > 500
        grown = highest_mib(own_mover) - before
    assert grown <= MOST_MIB_OF_A_FLOOD, f"{grown:.0f} MiB"
    refused = {
        reason: own_mover.metric("sandhold_mover_refused_hellos_total", reason=reason)
        for reason in ("displaced", "too_fast", "token_refused", "no_tls", "no_hello")
    }
    assert min(refused["displaced"], refused["too_fast"], refused["token_refused"]) > 0, refused
    said = [line for line in own_mover.log().splitlines() if '"level": "DEBUG"' not in line]
    assert len(said) < 100, "a line for each connection would be a flood of its own"
    key = f"sandboxes/test-installation/{pod.slot}/0000000001-0000000001"
    fault.judge_ending(("stored", key), (stored["type"], stored["key"]))
    # And when it is over, the places are free again.
    await eventually(lambda: own_mover.metric("sandhold_mover_connections", state="unproven") == 0, 15)


async def answer_to(mover: MoverProcess, message: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a first message; None if the mover hangs up without a word."""
    async with dialled(mover.keeper_port, mover.installation.keeper_tls()) as peer:
        await peer.say(message)
        try:
            return await peer.hear()
        except PeerGoneError:
            return None


@pytest.fixture
async def untouched(mover: MoverProcess, s3: S3Server, pod: Pod) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The slot of a pod at work, whose keeper is at home: nothing of it may change, and the keeper may not notice."""
    stored = await archived(mover, pod, 1024)
    before = {key: s3.get(key) for key in s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")}
    async with mover.keeper("control", pod.token) as control, mover.operator() as operator:

        async def check() -> None:
            after = {key: s3.get(key) for key in s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")}
            assert (stored["type"], after) == ("stored", before)
            assert (await operator.ask("order", podUid=pod.uid, order={"verb": "open"}))["ok"] is True
            assert await control.hear() == {"type": "order", "order": {"verb": "open"}}

        yield check


Check = Callable[[], Awaitable[None]]


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c\n", "a.b.c " * 2000])
@pytest.mark.parametrize("purpose", ["control", "archive", "restore"])
async def test_without_a_token_nobody_is_answered(
    mover: MoverProcess, untouched: Check, purpose: str, token: str
) -> None:
    assert await answer_to(mover, hello(purpose, token[:7000])) is None
    await untouched()


async def test_a_token_whose_pod_is_gone_is_refused_even_if_it_was_good_a_moment_ago(
    own_mover: MoverProcess, reviews: TokenReviewServer
) -> None:
    """Believed for 30 s at most: here it was never seen before its pod went."""
    own_mover.start()
    gone = new_pod(reviews)
    reviews.revoke(gone.token)
    answer = await answer_to(own_mover, hello("control", gone.token))
    assert answer is not None
    assert (answer["type"], answer["code"]) == ("refused", "token_refused")


async def test_another_pods_token_makes_nobody_this_pod(
    mover: MoverProcess, untouched: Check, pod: Pod, reviews: TokenReviewServer
) -> None:
    """Who has another pod's token is that pod: it takes this one's connection over in no way."""
    other = new_pod(reviews)
    answer = await answer_to(mover, {**hello("control", other.token), "podUid": pod.uid})
    assert answer == {"type": "welcome", "version": 1, "podUid": other.uid}
    await untouched()


@pytest.mark.parametrize("verb", ["archive", "restore"])
async def test_a_stolen_grant_with_ones_own_token_moves_nothing(
    mover: MoverProcess, untouched: Check, pod: Pod, reviews: TokenReviewServer, verb: str
) -> None:
    thief = new_pod(reviews)
    source = {"epoch": 1, "sequence": 1} if verb == "restore" else None
    stolen = mover.installation.grant(verb, pod.uid, pod.slot, source=source)
    answer = await answer_to(mover, hello(verb, thief.token, stolen))
    assert answer is not None
    assert (answer["type"], answer["code"], answer["message"]) == (
        "refused",
        "grant_refused",
        "the grant is for another pod",
    )
    await untouched()


async def test_ones_own_grant_with_another_pods_token_moves_nothing(
    mover: MoverProcess, untouched: Check, pod: Pod, reviews: TokenReviewServer
) -> None:
    agent = new_pod(reviews)
    own = mover.installation.grant("archive", agent.uid, agent.slot)
    answer = await answer_to(mover, hello("archive", pod.token, own))
    assert answer is not None
    assert (answer["type"], answer["code"]) == ("refused", "grant_refused")
    await untouched()


@pytest.mark.parametrize("change", ["slot", "pod", "signature", "other installation's key"])
async def test_a_grant_that_was_altered_is_none(mover: MoverProcess, untouched: Check, pod: Pod, change: str) -> None:
    """A pod with a token and a grant of its own that it would like to be another's."""
    grant = mover.installation.grant("archive", pod.uid, "another-slot")
    payload, _, signature = grant.partition(".")
    altered = {
        "slot": f"{payload[:-8]}AAAAAAAA.{signature}",
        "pod": f"{payload[::-1]}.{signature}",
        "signature": f"{payload}.{signature[::-1]}",
        "other installation's key": Installation.new().grant("archive", pod.uid, pod.slot),
    }[change]
    answer = await answer_to(mover, hello("archive", pod.token, altered))
    assert answer is not None
    assert (answer["type"], answer["code"]) == ("refused", "grant_refused")
    await untouched()


async def test_a_hello_that_is_replayed_from_the_wire_is_no_hello(mover: MoverProcess, pod: Pod) -> None:
    """Every byte that a keeper has sent, sent again: TLS makes another conversation of it."""
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with MoverRoad(mover.keeper_port).open() as road:
        async with dialled(road.port, mover.installation.keeper_tls()) as peer:
            await peer.say(hello("archive", pod.token, grant))
            assert (await peer.hear())["type"] == "welcome"
        [recorded] = road.sent_up
    assert len(recorded) > 1000
    await eventually(lambda: mover.metric("sandhold_mover_transfers_running", verb="archive") == 0)
    proven = mover.metric("sandhold_mover_connections", state="proven")
    reader, writer = await asyncio.open_connection("127.0.0.1", mover.keeper_port)
    writer.write(recorded)
    answer = b""
    with suppress(OSError):
        async with asyncio.timeout(15):
            while piece := await reader.read(65536):
                answer += piece
    writer.close()
    assert mover.metric("sandhold_mover_connections", state="proven") == proven
    assert mover.metric("sandhold_mover_transfers_running", verb="archive") == 0


async def test_a_hello_that_is_said_again_within_a_conversation_ends_it(mover: MoverProcess, pod: Pod) -> None:
    async with mover.keeper("control", pod.token) as peer:
        await peer.say(hello("control", pod.token))
        assert await peer.is_hung_up_on()
