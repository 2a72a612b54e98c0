"""Stores in trouble: each trouble has its sentence, none is taken for an empty slot, and all of them pass."""

from contextlib import suppress

import pytest

from sandhold.mover.wire import PeerGoneError, write_data, write_end
from testkit.mover_process import MAC_KEYS, MoverProcess, Pod, eventually
from testkit.ports import free_port
from testkit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from testkit.token_review_server import OWN_TOKEN
from testkit.wire_keeper import PartEndedError


async def trouble(mover: MoverProcess, pod: Pod) -> str:
    """What an operator that asks for the head, and a keeper that archives, are told."""
    async with mover.operator() as operator:
        answer = await operator.ask("head", store="main", slot=pod.slot)
    assert (answer["ok"], answer["error"]["code"]) == (False, "snapshot_store_unavailable"), answer
    assert answer["error"]["retryable"] is True
    last = await archive(mover, pod)
    assert (last["type"], last["code"], last["retryable"]) == ("failed", "snapshot_store_unavailable", True)
    message = str(answer["error"]["message"])
    for secret in (ACCESS_KEY, SECRET_KEY, MAC_KEYS["keys"]["k1"], OWN_TOKEN, "Signature="):
        assert secret not in message + mover.log()
    return message


async def archive(mover: MoverProcess, pod: Pod, layer: bytes = b"layer") -> dict[str, object]:
    return await mover.archive(pod, layer)


async def test_a_bucket_that_is_missing(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    own_s3.remove_bucket()
    message = await trouble(own_mover, pod)
    assert "store main (bucket archives at http://127.0.0.1:" in message
    assert "the bucket does not exist; create it" in message


async def test_a_store_that_is_down_and_comes_back(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    own_s3.stop()
    assert "no connection; check that the service runs" in await trouble(own_mover, pod)
    own_s3.start()
    assert (await archive(own_mover, pod))["type"] == "stored"


async def test_a_store_that_dies_under_a_transfer(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    grant = own_mover.installation.grant("archive", pod.uid, pod.slot)
    async with own_mover.keeper("archive", pod.token, grant) as peer:
        for _ in range(36):
            await write_data(peer.writer, bytes(256 * 1024))
        await eventually(lambda: bool(own_s3.uploads()))
        own_s3.stop()
        with suppress(PeerGoneError):
            for _ in range(160):
                await write_data(peer.writer, bytes(256 * 1024))
            await write_end(peer.writer)
            await peer.send_part([])
        answer = await peer.hear()
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "snapshot_store_unavailable", True)

    own_s3.start()
    layer = bytes(48 << 20)
    assert (await archive(own_mover, pod, layer))["type"] == "stored"
    source = {"epoch": 1, "sequence": 1}
    grant = own_mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source=source)
    async with own_mover.keeper("restore", pod.token, grant) as peer:
        assert (await peer.hear())["type"] == "manifest"
        await peer.hear_part()
        await peer.frame()
        own_s3.stop()
        with pytest.raises(PartEndedError) as caught:
            await peer.hear_part()
    assert (caught.value.message["code"], caught.value.message["retryable"]) == ("snapshot_store_unavailable", True)


async def test_keys_that_are_wrong_and_are_put_right(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.use(own_s3)
    own_mover.write_credentials("main", secret="not-the-secret")
    own_mover.start()
    message = await trouble(own_mover, pod)
    assert "access is denied (SignatureDoesNotMatch)" in message
    assert "not-the-secret" not in message + own_mover.log()
    own_mover.write_credentials("main")
    assert (await archive(own_mover, pod))["type"] == "stored"


async def test_a_store_that_is_not_configured_and_then_is(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.start()
    assert "store main is not in the backends file; add stores.main there" in await trouble(own_mover, pod)
    own_mover.use(own_s3)
    assert (await archive(own_mover, pod))["type"] == "stored"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"current": "k9", "keys": {"k1": "11" * 32}}, "among them the one that 'current' names"),
        ({"current": "k1", "keys": {"k1": "11"}}, "hexadecimal key of at least 16 bytes"),
        ({}, "mac-keys.json must hold"),
    ],
)
async def test_mac_keys_that_cannot_be_used(
    own_mover: MoverProcess, s3: S3Server, pod: Pod, keys: dict[str, object], sentence: str
) -> None:
    own_mover.use(s3)
    own_mover.write_credentials("main", mac_keys=keys)
    own_mover.start()
    assert sentence in await trouble(own_mover, pod)


async def test_a_rotated_mac_key_still_verifies_what_it_signed_and_a_removed_one_does_not(
    own_mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    own_mover.use(s3)
    own_mover.start()
    assert (await archive(own_mover, pod))["type"] == "stored"
    async with own_mover.operator() as operator:
        own_mover.write_credentials("main", mac_keys={"current": "k2", "keys": {"k1": "11" * 32, "k2": "22" * 32}})
        assert (await operator.ask("head", store="main", slot=pod.slot))["ok"] is True
        own_mover.write_credentials("main", mac_keys={"current": "k2", "keys": {"k2": "22" * 32}})
        answer = await operator.ask("head", store="main", slot=pod.slot)
        assert answer["error"]["code"] == "invalid_snapshot"


@pytest.mark.parametrize("fields", [{"verify": "ReadBack"}, {"checksums": "WhenRequired"}])
async def test_archives_that_are_verified_by_reading_them_back(
    own_mover: MoverProcess, s3: S3Server, pod: Pod, fields: dict[str, str]
) -> None:
    own_mover.use(s3, **fields)
    own_mover.start()
    assert (await archive(own_mover, pod, bytes(9 << 20)))["type"] == "stored"


async def test_an_endpoint_where_nobody_listens(own_mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    own_mover.use(s3, endpoint=f"http://127.0.0.1:{free_port()}")
    own_mover.start()
    assert "no connection" in await trouble(own_mover, pod)


async def test_a_bad_backends_file_keeps_the_good_one_in_force(own_mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    own_mover.use(s3)
    own_mover.start()
    assert (await archive(own_mover, pod))["type"] == "stored"
    own_mover.write_backends({"main": {"type": "s3", "bukket": "x"}})
    assert (await archive(own_mover, pod))["type"] == "stored"
    await eventually(lambda: "keeps its old content in force" in own_mover.log())
