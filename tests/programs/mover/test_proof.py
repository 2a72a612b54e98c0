"""Who gets in: keepers by their token, transfers by their grant, operators by their certificate; and nobody else."""

import asyncio
import socket
import ssl
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.pki import Installation
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import dialled, done, hello


async def answer_to(mover: MoverProcess, purpose: str, token: str, grant: str = "") -> dict[str, Any]:
    """The answer to a hello, after which the mover must have hung up if it is a refusal."""
    async with dialled(mover.keeper_port, mover.installation.keeper_tls()) as peer:
        await peer.say(hello(purpose, token, grant))
        answer = await peer.hear()
        if answer["type"] == "refused":
            assert await peer.is_hung_up_on()
        return answer


async def test_a_valid_token_is_welcome_and_the_pod_is_the_one_it_is_bound_to(mover: MoverProcess, pod: Pod) -> None:
    assert await answer_to(mover, "control", pod.token) == {"type": "welcome", "version": 1, "podUid": pod.uid}


async def test_a_token_that_nobody_issued_is_refused(mover: MoverProcess) -> None:
    answer = await answer_to(mover, "control", "aaaa.bbbb.cccc")
    assert (answer["type"], answer["code"]) == ("refused", "token_refused")


async def test_a_token_for_another_audience_is_refused(mover: MoverProcess, reviews: TokenReviewServer) -> None:
    answer = await answer_to(mover, "control", reviews.issue("u", audience="https://kubernetes.default.svc"))
    assert (answer["type"], answer["code"]) == ("refused", "token_refused")


async def test_a_token_that_is_bound_to_no_pod_is_refused(mover: MoverProcess, reviews: TokenReviewServer) -> None:
    answer = await answer_to(mover, "control", reviews.issue_unbound())
    assert (answer["type"], answer["code"]) == ("refused", "token_refused")


async def test_an_api_server_that_does_not_answer_is_no_refusal_of_the_token(
    own_mover: MoverProcess, reviews: TokenReviewServer, pod: Pod
) -> None:
    own_mover.start()
    reviews.fails_with = 503
    try:
        answer = await answer_to(own_mover, "control", pod.token)
    finally:
        reviews.fails_with = None
    assert (answer["type"], answer["code"]) == ("refused", "review_unavailable")
    assert (await answer_to(own_mover, "control", pod.token))["type"] == "welcome"


async def test_no_token_is_ever_logged(mover: MoverProcess, reviews: TokenReviewServer) -> None:
    token = reviews.issue("u", audience="other")
    await answer_to(mover, "control", token)
    assert token.split(".")[2] not in mover.log()


@pytest.mark.parametrize(
    ("purpose", "fields"),
    [
        ("archive", {"expires": 1}),
        ("archive", {"verb": "restore", "source": {"epoch": 1, "sequence": 1}}),
        ("restore", {"verb": "archive", "sequence": 1}),
        ("archive", {"pod_uid": "another"}),
        ("archive", {"signed_by": Ed25519PrivateKey.generate()}),
        ("archive", None),
    ],
)
async def test_a_grant_for_something_else_is_refused(
    mover: MoverProcess, pod: Pod, purpose: str, fields: dict[str, Any] | None
) -> None:
    grant = ""
    if fields is not None:
        verb = fields.pop("verb", purpose)
        grant = mover.installation.grant(verb, fields.pop("pod_uid", pod.uid), pod.slot, **fields)
    answer = await answer_to(mover, purpose, pod.token, grant)
    assert (answer["type"], answer["code"]) == ("refused", "grant_refused")


async def test_a_grant_of_another_installation_moves_nothing(mover: MoverProcess, pod: Pod) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot, installation="other")
    async with mover.keeper("archive", pod.token, grant) as peer:
        answer = await peer.hear()
    assert (answer["type"], answer["code"]) == ("failed", "grant_refused")


@pytest.mark.parametrize(
    "first",
    [
        b"\x00\x00\x20\x01J" + b"x" * 8193,  # more than 8 KiB
        b"\xff\xff\xff\xffJ",
        b"\x00\x00\x00\x02X{}",
        b"\x00\x00\x00\x02J[]",
        b"\x00\x00\x00\x02J{}",
        b"\x00\x00\x00\x00E",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_a_first_frame_that_is_no_hello_ends_the_connection(mover: MoverProcess, first: bytes) -> None:
    async with dialled(mover.keeper_port, mover.installation.keeper_tls()) as peer:
        peer.writer.write(first)
        await peer.writer.drain()
        assert await peer.is_hung_up_on()


async def test_an_oversize_frame_after_the_welcome_ends_the_connection(mover: MoverProcess, pod: Pod) -> None:
    async with mover.keeper("control", pod.token) as peer:
        peer.writer.write((64 * 1024 + 1).to_bytes(4, "big") + b"J")
        await peer.writer.drain()
        assert await peer.is_hung_up_on()


async def test_a_slow_hello_and_a_silent_socket_are_hung_up_on_in_time(mover: MoverProcess) -> None:
    started = time.monotonic()
    silent_reader, silent_writer = await asyncio.open_connection("127.0.0.1", mover.keeper_port)
    async with dialled(mover.keeper_port, mover.installation.keeper_tls()) as peer:
        peer.writer.write(b"\x00\x00\x00\x40J")
        for _ in range(9):  # one byte a second is progress, and no excuse
            await asyncio.sleep(1)
            peer.writer.write(b" ")
        assert await peer.is_hung_up_on()
    assert await silent_reader.read(1) == b""
    silent_writer.close()
    assert 9 < time.monotonic() - started < 25


async def test_a_flood_of_unproven_connections_stops_no_proven_keeper(
    own_mover: MoverProcess, reviews: TokenReviewServer, pod: Pod
) -> None:
    """The flood comes from the keeper's own address, as an agent's would."""
    own_mover.start()
    late = new_pod(reviews)
    async with AsyncExitStack() as stack:
        keeper = await stack.enter_async_context(own_mover.keeper("control", pod.token))
        flood = [await asyncio.open_connection("127.0.0.1", own_mover.keeper_port) for _ in range(60)]
        operator = await stack.enter_async_context(own_mover.operator())
        order = {"verb": "end", "graceSeconds": 1}
        assert (await operator.ask("order", podUid=pod.uid, order=order))["ok"] is True
        assert await keeper.hear() == {"type": "order", "order": order}
        # And another one gets in while the flood's sockets are open: the oldest of them made room.
        assert (await answer_to(own_mover, "control", late.token))["type"] == "welcome"
        closed = 0
        for reader, writer in flood:
            try:
                async with asyncio.timeout(0.01):
                    closed += await reader.read(1) == b""
            except TimeoutError:
                pass
            writer.close()
        assert 20 <= closed < 60


async def test_invented_tokens_tire_the_api_server_no_longer_than_a_moment_and_keep_no_keeper_out(
    own_mover: MoverProcess, reviews: TokenReviewServer, pod: Pod
) -> None:
    own_mover.start()
    assert (await answer_to(own_mover, "control", pod.token))["type"] == "welcome"
    before = reviews.reviews
    codes = [(await answer_to(own_mover, "control", f"aaaa.bbbb.{number}"))["code"] for number in range(20)]
    assert codes[:10] == ["token_refused"] * 10
    assert codes[-1] == "too_many_connections"
    assert reviews.reviews - before < 15
    assert own_mover.log().count("was refused: the token is not valid") < 15
    assert (await answer_to(own_mover, "control", pod.token))["type"] == "welcome"


async def test_a_keeper_that_archives_anew_has_given_the_earlier_archive_up(mover: MoverProcess, pod: Pod) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with (
        mover.keeper("archive", pod.token, grant) as first,
        mover.keeper("archive", pod.token, grant) as second,
    ):
        assert await first.is_hung_up_on()
        await second.send_part([b"layer"])
        await second.send_part([])
        await second.say(done(b"layer", []))
        assert (await second.hear())["type"] == "stored"


async def test_a_flood_on_the_operators_port_keeps_no_operator_out(own_mover: MoverProcess) -> None:
    own_mover.start()
    flood = [await asyncio.open_connection("127.0.0.1", own_mover.operator_port) for _ in range(40)]
    async with own_mover.operator() as operator:
        assert (await operator.ask("order", podUid="x", order={}))["error"]["code"] == "keeper_absent"
    for _, writer in flood:
        writer.close()


async def test_an_operator_needs_the_operators_certificate(mover: MoverProcess, installation: Installation) -> None:
    async with mover.operator() as operator:
        assert (await operator.ask("head", store="main", slot="none"))["ok"] is True
    async with dialled(mover.operator_port, installation.mover_client_tls()) as peer:
        assert await peer.is_hung_up_on()
    for tls in (installation.keeper_tls(), Installation.new().operator_tls()):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        async with dialled(mover.operator_port, tls) as peer:
            # TLS 1.3: the client hears of the refusal only when it reads.
            assert await peer.is_hung_up_on()


async def test_the_canary_accepts_and_hangs_up(mover: MoverProcess) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", mover.canary_port)
    assert await reader.read() == b""
    writer.close()


async def test_a_renewed_certificate_is_served_without_a_restart(
    own_mover: MoverProcess, pod: Pod, tmp_path: Any
) -> None:
    own_mover.start()
    async with dialled(own_mover.keeper_port, own_mover.installation.keeper_tls()) as peer:
        before = peer.writer.get_extra_info("peercert")["serialNumber"]
    own_mover.installation.write_mover_tls(tmp_path / "mover" / "tls")

    def serial() -> str:
        with (
            socket.create_connection(("127.0.0.1", own_mover.keeper_port)) as raw,
            own_mover.installation.keeper_tls().wrap_socket(raw, server_hostname="sandhold-mover") as connection,
        ):
            return str((connection.getpeercert() or {})["serialNumber"])

    await eventually(lambda: serial() != before)
    assert (await answer_to(own_mover, "control", pod.token))["type"] == "welcome"
