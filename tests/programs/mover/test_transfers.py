"""Archives and restores through a real mover and a real S3: what comes back is what went, or a refusal."""

import hashlib
import json
import os
from contextlib import suppress
from typing import Any

import pytest

from sandhold.mover.wire import PeerGoneError, write_data
from testkit.mover_process import MoverProcess, Pod, eventually
from testkit.s3_server import S3Server
from testkit.wire_keeper import PartEndedError, Peer, done, file_record, lines

RECORDS = [
    {"path": "a", "type": "dir", "mode": 0o755, "mtimeNs": "1700000000000000001"},
    file_record("a/b", b"hello"),
    {"path": "a/c", "type": "symlink", "mode": 0o777, "mtimeNs": "0", "target": "/usr/bin/python3"},
    {**file_record("x", b"raw"), "path": None},
]
del RECORDS[3]["path"]
RECORDS[3]["pathBase64"] = "/w=="


async def archive(mover: MoverProcess, pod: Pod, layer: bytes, **fields: Any) -> dict[str, Any]:
    """The mover's last word on an archive of this layer."""
    return await mover.archive(pod, layer, RECORDS, **fields)


async def send_archive(peer: Peer, layer: bytes, **fields: Any) -> dict[str, Any]:
    await peer.send_archive(layer, RECORDS, **fields)
    return await peer.hear()


async def restore(mover: MoverProcess, pod: Pod, epoch: int = 1, sequence: int = 1) -> tuple[Any, bytes, bytes, Any]:
    """Header, records, layer and last word of a restore."""
    source = {"epoch": epoch, "sequence": sequence}
    grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=epoch + 1, source=source)
    async with mover.keeper("restore", pod.token, grant) as peer:
        first = await peer.hear()
        if first["type"] == "failed":
            return None, b"", b"", first
        try:
            records, layer = await peer.hear_part(), await peer.hear_part()
        except PartEndedError as error:
            return first["header"], b"", b"", error.message
        return first["header"], records, layer, await peer.hear()


@pytest.mark.parametrize("size", [0, 1, 300_000, 8 << 20, (17 << 20) + 3])
async def test_what_is_archived_comes_back_byte_for_byte(
    mover: MoverProcess, s3: S3Server, pod: Pod, size: int
) -> None:
    layer = os.urandom(size)
    stored = await archive(mover, pod, layer, source={"epoch": 1, "sequence": 0} if size else None)
    key = f"sandboxes/test-installation/{pod.slot}/0000000001-0000000001"
    assert stored == {"type": "stored", "key": key, "sequence": 1}

    async with mover.operator() as operator:
        answer = await operator.ask("head", store="main", slot=pod.slot)
    head = answer["result"]["head"]
    assert answer["result"]["content"] == head
    assert (head["epoch"], head["sequence"], head["kind"]) == (1, 1, "Archive")
    assert (head["files"], head["bytes"]) == (4, 8)
    assert head["digest"] == hashlib.sha256(s3.get(head["key"])).hexdigest()

    header, records, restored, end = await restore(mover, pod)
    assert restored == layer
    assert records == lines(RECORDS)
    assert end == {"type": "end", "layers": [{"sha256": hashlib.sha256(layer).hexdigest(), "bytes": size}]}
    assert header["layers"][0]["sha256"] == hashlib.sha256(layer).hexdigest()
    assert s3.uploads() == []


@pytest.mark.parametrize("piece", [3_001, 200_003, 262_144])
async def test_a_layer_comes_back_whatever_pieces_it_came_in(
    mover: MoverProcess, s3: S3Server, pod: Pod, piece: int
) -> None:
    """Parts end within pieces, and at their ends."""
    layer = os.urandom((16 << 20) + 5)
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        await peer.send_part(layer[start : start + piece] for start in range(0, len(layer), piece))
        await peer.send_part([lines(RECORDS)])
        await peer.say(done(layer, RECORDS))
        assert (await peer.hear())["type"] == "stored"
    *_, restored, _ = await restore(mover, pod)
    assert restored == layer
    assert s3.uploads() == []


async def test_a_layer_that_was_cut_is_an_invalid_snapshot(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    await archive(mover, pod, b"layer" * 1000)
    [key] = s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")
    s3.put(key, s3.get(key)[:-1])
    *_, last = await restore(mover, pod)
    assert (last["type"], last["code"], last["retryable"]) == ("failed", "invalid_snapshot", False)
    assert "4999 bytes, not 5000" in last["message"]


async def test_a_layer_that_was_altered_is_an_invalid_snapshot(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    await archive(mover, pod, b"layer" * 1000)
    [key] = s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")
    s3.put(key, b"Layer" + s3.get(key)[5:])
    *_, last = await restore(mover, pod)
    assert (last["type"], last["code"]) == ("failed", "invalid_snapshot")
    assert "altered" in last["message"]


async def test_a_layer_that_is_gone_is_an_invalid_snapshot(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    await archive(mover, pod, b"layer")
    [key] = s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")
    s3.delete(key)
    *_, last = await restore(mover, pod)
    assert (last["type"], last["code"]) == ("failed", "invalid_snapshot")


@pytest.mark.parametrize("target", ["other_slot", "other_epoch", "other_sequence"])
async def test_a_manifest_copied_elsewhere_is_an_invalid_snapshot(
    mover: MoverProcess, s3: S3Server, pod: Pod, target: str
) -> None:
    stored = await archive(mover, pod, b"layer")
    slot, generation = pod.slot, (1, 1)
    if target == "other_slot":
        slot = f"{pod.slot}-copy"
    else:
        generation = (2, 1) if target == "other_epoch" else (1, 2)
    copy = f"sandboxes/test-installation/{slot}/{generation[0]:010d}-{generation[1]:010d}"
    s3.put(copy, s3.get(stored["key"]))

    async with mover.operator() as operator:
        answer = await operator.ask("head", store="main", slot=slot)
    assert answer["error"]["code"] == "invalid_snapshot"

    source = {"epoch": generation[0], "sequence": generation[1]}
    grant = mover.installation.grant("restore", pod.uid, slot, epoch=5, source=source)
    async with mover.keeper("restore", pod.token, grant) as peer:
        assert (await peer.hear())["code"] == "invalid_snapshot"


async def test_a_manifest_signed_with_an_unknown_key_is_an_invalid_snapshot(
    mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    stored = await archive(mover, pod, b"layer")
    s3.put(stored["key"], s3.get(stored["key"]).replace(b'"keyId":"k1"', b'"keyId":"k2"'))
    *_, last = await restore(mover, pod)
    assert last["code"] == "invalid_snapshot"


async def test_a_missing_manifest_is_said_to_be_missing(mover: MoverProcess, pod: Pod) -> None:
    *_, last = await restore(mover, pod)
    assert (last["code"], last["retryable"]) == ("manifest_missing", False)


async def test_the_same_archive_again_is_stored_once(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    first = await archive(mover, pod, b"layer")
    assert await archive(mover, pod, b"layer") == first
    await eventually(lambda: len(s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")) == 2)
    header, _, restored, _ = await restore(mover, pod)
    assert restored == b"layer"
    assert header["podUid"] == pod.uid


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ({"layerSha256": "0" * 64}, "manifest_producer_failed"),
        ({"layerBytes": 4}, "manifest_producer_failed"),
        ({"files": 3}, "manifest_producer_failed"),
        ({"bytes": 9}, "manifest_producer_failed"),
    ],
)
async def test_an_account_that_does_not_agree_leaves_nothing(
    mover: MoverProcess, s3: S3Server, pod: Pod, lie: dict[str, Any], code: str
) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        answer = await send_archive(peer, b"layer", **lie)
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", code, True)
    await nothing_stays(mover, s3, pod)


@pytest.mark.parametrize(
    "record",
    [
        b"{}",
        b"[]",
        b"not json",
        json.dumps(file_record("../x", b"")).encode(),
        json.dumps(file_record("/x", b"")).encode(),
        json.dumps(file_record("a//x", b"")).encode(),
        json.dumps({**file_record("x", b""), "mode": 0o10000}).encode(),
        json.dumps({**file_record("x", b""), "surprise": 1}).encode(),
        b"[" * 100_000,
    ],
)
async def test_a_record_that_no_keeper_writes_ends_the_archive(
    mover: MoverProcess, s3: S3Server, pod: Pod, record: bytes
) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        await peer.send_part([b"layer"])
        await peer.send_part([record + b"\n"])
        answer = await peer.hear()
    assert (answer["type"], answer["code"]) == ("failed", "manifest_producer_failed")
    await nothing_stays(mover, s3, pod)


async def test_a_layer_beyond_its_grant_is_refused_while_it_streams(
    mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot, max_bytes=1000, max_files=10)
    async with mover.keeper("archive", pod.token, grant) as peer:
        with suppress(PeerGoneError):
            await peer.send_part(bytes(200_000) for _ in range(100))
        answer = await peer.hear()
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "snapshot_too_large", False)
    await nothing_stays(mover, s3, pod)


@pytest.mark.parametrize("limit", [{"max_files": 3}, {"max_bytes": 7}])
async def test_records_beyond_their_grant_are_refused(
    mover: MoverProcess, s3: S3Server, pod: Pod, limit: dict[str, int]
) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot, **limit)
    async with mover.keeper("archive", pod.token, grant) as peer:
        answer = await send_archive(peer, b"layer")
    assert (answer["type"], answer["code"]) == ("failed", "snapshot_too_large")
    await nothing_stays(mover, s3, pod)


async def test_a_manifest_of_many_files_comes_back_whole(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    """Larger than what is kept in memory, and than one frame."""
    records = [file_record(f"folder/{'n' * 200}-{number}", b"") for number in range(8000)]
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        await peer.send_part([b"layer"])
        await peer.send_part([lines(records)])
        await peer.say(done(b"layer", records))
        stored = await peer.hear()
        assert stored["type"] == "stored", stored
    assert len(s3.get(stored["key"])) > 2 << 20
    header, restored, _, end = await restore(mover, pod)
    assert restored == lines(records)
    assert (header["files"], end["type"]) == (8000, "end")


async def test_a_large_archive_that_breaks_off_leaves_no_parts(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        for _ in range(40):
            await write_data(peer.writer, os.urandom(256 * 1024))
        await eventually(lambda: bool(s3.uploads()))
    await nothing_stays(mover, s3, pod)


async def test_a_mover_killed_in_mid_archive_leaves_no_manifest_and_the_next_one_works(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    grant = own_mover.installation.grant("archive", pod.uid, pod.slot)
    async with own_mover.keeper("archive", pod.token, grant) as peer:
        for _ in range(40):
            await write_data(peer.writer, os.urandom(256 * 1024))
        await eventually(lambda: bool(own_s3.uploads()))
        own_mover.kill()
        assert await peer.is_hung_up_on()
    assert own_s3.list_keys() == []

    own_mover.start()
    layer = os.urandom(9 << 20)
    assert (await archive(own_mover, pod, layer))["type"] == "stored"
    *_, restored, _ = await restore(own_mover, pod)
    assert restored == layer


async def nothing_stays(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    """Neither a manifest nor, once the mover has cleaned up, anything else."""
    async with mover.operator() as operator:
        answer = await operator.ask("head", store="main", slot=pod.slot)
    assert answer["result"] == {"head": None, "content": None}
    await eventually(lambda: not s3.list_keys(f"sandboxes/test-installation/{pod.slot}/") and not s3.uploads())
