"""Frames: what is read is what was written, and nothing is read beyond a limit."""

import asyncio

import pytest

from sandhold.mover import wire
from sandhold.mover.wire import Frame, FrameError, Kind, PeerGoneError, encode, encode_message, read_frame


def reader(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return stream


async def test_frames_follow_each_other() -> None:
    stream = reader(encode_message({"type": "ä", "n": 1}) + encode(Kind.DATA, b"\x00\xff") + encode(Kind.END))
    assert (await read_frame(stream)).message() == {"type": "ä", "n": 1}
    assert await read_frame(stream) == Frame(Kind.DATA, b"\x00\xff")
    assert await read_frame(stream) == Frame(Kind.END, b"")
    with pytest.raises(PeerGoneError):
        await read_frame(stream)


@pytest.mark.parametrize(
    ("kind", "length"), [("J", wire.LIMIT_JSON), ("D", wire.LIMIT_DATA), ("E", 0)], ids=["J", "D", "E"]
)
async def test_the_length_is_judged_before_anything_is_read(kind: str, length: int) -> None:
    whole = length.to_bytes(4, "big") + kind.encode() + b" " * length
    assert len((await read_frame(reader(whole))).payload) == length
    # No payload follows: a reader that waited for it would say that the peer is gone.
    with pytest.raises(FrameError, match="announces"):
        await read_frame(reader((length + 1).to_bytes(4, "big") + kind.encode()))


async def test_a_lower_limit_holds_for_what_is_not_proven() -> None:
    with pytest.raises(FrameError, match="at most 8192"):
        await read_frame(reader((8193).to_bytes(4, "big") + b"J"), wire.LIMIT_HELLO)


async def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(FrameError, match="unknown kind 0x51"):
        await read_frame(reader(b"\x00\x00\x00\x00Q"))


@pytest.mark.parametrize("cut", [1, 4, 5, 7])
async def test_a_frame_that_breaks_off_is_a_peer_that_is_gone(cut: int) -> None:
    with pytest.raises(PeerGoneError):
        await read_frame(reader(encode_message({"a": 1})[:cut]))


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"1", b"null", b"{", b'{"a":NaN}', b"\xff", b"[" * 60_000, b'{"a":' + b"9" * 5000 + b"}"]
)
def test_what_is_no_object_in_json_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError):
        wire.parse_message(payload)


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.END])
def test_bytes_are_no_message(kind: Kind) -> None:
    with pytest.raises(FrameError, match="where a JSON message was due"):
        Frame(kind, b"").message()


@pytest.mark.parametrize("message", [{"a": "x" * wire.LIMIT_JSON}, {"a": "\ud800"}, {"a": float("nan")}])
def test_what_cannot_be_sent_is_refused_here(message: wire.Message) -> None:
    with pytest.raises(FrameError):
        encode_message(message)
