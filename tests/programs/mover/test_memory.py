"""What an idle keeper and a large transfer cost a mover."""

import asyncio
import hashlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sandhold.mover.wire import Kind, PeerGoneError, write_data, write_end
from testkit.mover_process import MoverProcess, Pod, new_pod
from testkit.reports import wire_report
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import Peer, done

CONNECTIONS = 200
MOST_KIB = 60


LAYER_MIB = 192
MOST_MIB_OF_TRANSFERS = 110


def kib(pid: int, what: str) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{what}:")]
    return int(line.split()[1])


async def connect(stack: AsyncExitStack, mover: MoverProcess, reviews: TokenReviewServer, count: int) -> None:
    async with asyncio.timeout(60):
        for _ in range(count):
            keeper = await admitted(stack, mover, new_pod(reviews))
            await keeper.say({"type": "report", "report": wire_report()})


async def admitted(stack: AsyncExitStack, mover: MoverProcess, pod: Pod) -> Peer:
    """A keeper that dials again, as ours does, when more come from this address in a second than a mover lets in."""
    while True:
        try:
            return await stack.enter_async_context(mover.keeper("control", pod.token))
        except (OSError, PeerGoneError):
            await asyncio.sleep(0.1)  # a keeper's back-off


async def test_an_idle_keeper_costs_at_most_60_kib(
    own_mover: MoverProcess, reviews: TokenReviewServer, capsys: pytest.CaptureFixture[str]
) -> None:
    own_mover.start()
    async with AsyncExitStack() as stack:
        await connect(stack, own_mover, reviews, 20)  # what is allocated once
        before = kib(own_mover.pid, "VmRSS")
        await connect(stack, own_mover, reviews, CONNECTIONS)
        async with own_mover.operator() as operator:
            while (await operator.hear())["type"] != "synced":
                pass
        each = (kib(own_mover.pid, "VmRSS") - before) / CONNECTIONS
    with capsys.disabled():
        print(f"\n{CONNECTIONS} idle keepers cost the mover {each:.1f} KiB each")  # noqa: T201
    assert each <= MOST_KIB


async def test_a_transfer_costs_the_same_whatever_its_size(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    before = kib(own_mover.pid, "VmHWM")
    piece, digest = bytes(256 * 1024), hashlib.sha256()
    async with own_mover.keeper(
        "archive", pod.token, own_mover.installation.grant("archive", pod.uid, pod.slot)
    ) as peer:
        for _ in range(LAYER_MIB * 4):
            digest.update(piece)
            await write_data(peer.writer, piece)
        await write_end(peer.writer)
        await peer.send_part([])
        totals = {"layerSha256": digest.hexdigest(), "layerBytes": LAYER_MIB << 20}
        await peer.say(done(b"", [], **totals))
        assert (await peer.hear())["type"] == "stored"
    source = {"epoch": 1, "sequence": 1}
    grant = own_mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source=source)
    async with own_mover.keeper("restore", pod.token, grant) as peer:
        await peer.hear()
        assert await peer.hear_part() == b""
        received = 0
        while (frame := await peer.frame()).kind is not Kind.END:
            received += len(frame.payload)
        assert (received, (await peer.hear())["type"]) == (LAYER_MIB << 20, "end")
    grown = (kib(own_mover.pid, "VmHWM") - before) / 1024
    with capsys.disabled():
        print(f"\n{LAYER_MIB} MiB there and back cost the mover at most {grown:.0f} MiB")  # noqa: T201
    assert grown <= MOST_MIB_OF_TRANSFERS
