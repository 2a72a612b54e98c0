"""The S3 store against a real server: what it says about objects is what the server has."""

import base64
import hashlib
import io

import pytest
from botocore.exceptions import ClientError

from sandhold.snapshots.mac import parse_mac_keys
from sandhold.snapshots.stores.credentials import StoreCredentials
from sandhold.snapshots.stores.protocol import ObjectExistsError, ObjectMissingError, StoreUnavailableError
from sandhold.snapshots.stores.s3 import S3Store
from sandhold.snapshots.stores.settings import S3StoreConfig
from testkit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

KEYS = parse_mac_keys('{"current": "k", "keys": {"k": "' + "11" * 32 + '"}}')
MIB = 1024 * 1024


def store(s3: S3Server, **fields: str) -> S3Store:
    config = S3StoreConfig.model_validate({"type": "s3", "endpoint": s3.endpoint, "bucket": s3.bucket, **fields})
    return S3Store("main", config, StoreCredentials(ACCESS_KEY, SECRET_KEY, KEYS))


@pytest.mark.parametrize("content", [b"", b"x", bytes(MIB)])
def test_a_small_object_is_checked_by_the_server(s3: S3Server, content: bytes) -> None:
    stored = store(s3).write("small", content)
    assert (stored.size, stored.digest_was_checked) == (len(content), True)
    assert s3.get("small") == content


def test_a_server_that_is_believed_does_compare_the_digest(s3: S3Server) -> None:
    """What `digest_was_checked` stands on."""
    wrong = base64.b64encode(hashlib.sha256(b"sent").digest()).decode()
    with pytest.raises(ClientError):
        s3.client().put_object(Bucket=s3.bucket, Key="wrong", Body=b"came", ChecksumSHA256=wrong)
    assert s3.list_keys("wrong") == []


def test_an_object_in_parts_is_checked_by_the_server(s3: S3Server) -> None:
    upload = store(s3).upload("parts")
    upload.send(2, b"tail")
    upload.send(1, bytes(5 * MIB))
    stored = upload.complete()
    assert (stored.size, stored.digest_was_checked) == (5 * MIB + 4, True)
    assert s3.get("parts") == bytes(5 * MIB) + b"tail"
    upload.abort()
    assert s3.get("parts")[-4:] == b"tail"


def test_without_checksums_nothing_is_claimed(s3: S3Server) -> None:
    assert store(s3, checksums="WhenRequired").write("unchecked", b"x").digest_was_checked is False


def test_a_part_that_is_replaced_on_the_way_is_not_believed(s3: S3Server) -> None:
    upload = store(s3).upload("forged")
    upload.send(1, b"sent")
    upload._parts[1] = (upload._parts[1][0], b"\0" * 32)
    with pytest.raises(StoreUnavailableError):
        upload.complete()
    upload.abort()
    assert s3.list_keys("forged") == []


def test_an_object_appears_only_when_it_is_complete_and_never_after_an_abort(s3: S3Server) -> None:
    upload = store(s3).upload("aborted")
    upload.send(1, bytes(5 * MIB))
    assert s3.list_keys("aborted") == []
    upload.abort()
    assert s3.list_keys("aborted") == []
    assert s3.uploads() == []


def test_a_key_is_taken_once(s3: S3Server) -> None:
    store(s3).write_new("once", io.BytesIO(b"first"))
    with pytest.raises(ObjectExistsError):
        store(s3).write_new("once", io.BytesIO(b"second"))
    assert s3.get("once") == b"first"


def test_what_is_absent_is_missing_and_deleting_it_is_fine(s3: S3Server) -> None:
    with pytest.raises(ObjectMissingError):
        store(s3).read("absent")
    store(s3).delete("absent")


def test_a_bucket_that_is_absent_is_no_missing_object(s3: S3Server) -> None:
    gone = store(s3, bucket="no-such-bucket")
    for failing in (lambda: gone.read("x"), lambda: gone.list_folder("x/"), lambda: gone.write("x", b"")):
        with pytest.raises(StoreUnavailableError, match="the bucket does not exist"):
            failing()


def test_a_folder_lists_what_lies_directly_in_it(s3: S3Server) -> None:
    for key in ("folder/a", "folder/b", "folder/below/c", "folder2/d"):
        s3.put(key, b"x")
    assert [found.key for found in store(s3).list_folder("folder/")] == ["folder/a", "folder/b"]
