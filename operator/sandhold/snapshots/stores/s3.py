"""A store that speaks S3, by boto3: AWS and its look-alikes.

Every call has time limits and bounded retries, so a dead store is said to be dead within a minute or two and the
caller's own back-off takes over. Where bytes are verified: every part goes up with its SHA-256, which the server
checks; after completion the object's size and the digest of those digests are asked for. A server that shows none says
so through `digest_was_checked`, and the caller reads back.
"""

import hashlib
import logging
import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from urllib3.exceptions import HTTPError

from sandhold.snapshots.stores.credentials import StoreCredentials
from sandhold.snapshots.stores.failures import StoreTrouble, explain, trouble_of
from sandhold.snapshots.stores.protocol import (
    ListedObject,
    ObjectExistsError,
    ObjectMissingError,
    StoredObject,
    StoreUnavailableError,
)
from sandhold.snapshots.stores.settings import Checksums, S3StoreConfig

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONNECTIONS = 48
_CONNECT_SECONDS = 3
_READ_SECONDS = 20
_ATTEMPTS = 3
_MOST_PAGES = 100
"""Of 1,000 keys each; retention keeps a slot far below."""

_log = logging.getLogger(__name__)


class S3Store:
    """One bucket, seen through one configuration and one pair of keys."""

    def __init__(
        self,
        name: str,
        config: S3StoreConfig,
        credentials: StoreCredentials,
        failed: Callable[[StoreTrouble], None] = lambda _: None,
    ) -> None:
        self.name = name
        self._bucket = _Bucket(name, config, _client(config, credentials), failed)

    def list_folder(self, prefix: str) -> list[ListedObject]:
        """See ObjectStore."""
        bucket = self._bucket
        found: list[ListedObject] = []
        with bucket.failures(prefix):
            pages = bucket.client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket.config.bucket, Prefix=prefix, Delimiter="/"
            )
            for number, page in enumerate(pages):
                if number == _MOST_PAGES:
                    raise StoreUnavailableError(
                        f"store {self.name}: more than {_MOST_PAGES * 1000} keys lie under {prefix}; remove old ones"
                    )
                found += [
                    ListedObject(o["Key"], o["ETag"], o["Size"], o["LastModified"]) for o in page.get("Contents", [])
                ]
        return found

    def read(self, key: str) -> "S3Content":
        """See ObjectStore."""
        with self._bucket.failures(key):
            answer = self._bucket.client.get_object(**self._bucket.place(key))
        return S3Content(self._bucket, key, answer)

    def write_new(self, key: str, content: BinaryIO) -> None:
        """See ObjectStore."""
        with self._bucket.failures(key):
            self._bucket.client.put_object(Body=content, IfNoneMatch="*", **self._bucket.place(key))

    def write(self, key: str, content: bytes) -> StoredObject:
        """See ObjectStore."""
        bucket, digest = self._bucket, hashlib.sha256(content).digest()
        with bucket.failures(key):
            bucket.client.put_object(Body=content, **bucket.place(key), **bucket.checksum(digest))
            return bucket.stored(key, _encoded(digest))

    def upload(self, key: str) -> "S3Upload":
        """See ObjectStore."""
        bucket = self._bucket
        algorithm: dict[str, Any] = {"ChecksumAlgorithm": "SHA256"} if bucket.sends_checksums else {}
        with bucket.failures(key):
            answer = bucket.client.create_multipart_upload(**bucket.place(key), **algorithm)
        return S3Upload(bucket, key, answer["UploadId"])

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        with self._bucket.failures(key):
            self._bucket.client.delete_object(**self._bucket.place(key))


class S3Content:
    """See ObjectContent."""

    def __init__(self, bucket: "_Bucket", key: str, answer: Any) -> None:
        self.size: int = answer["ContentLength"]
        self.etag: str = answer["ETag"]
        self._bucket = bucket
        self._key = key
        self._body = answer["Body"]

    def read(self, size: int) -> bytes:
        """See ObjectContent."""
        with self._bucket.failures(self._key):
            data: bytes = self._body.read(size)
        return data

    def close(self) -> None:
        """See ObjectContent."""
        self._body.close()


class S3Upload:
    """See Upload."""

    def __init__(self, bucket: "_Bucket", key: str, upload_id: str) -> None:
        self._bucket = bucket
        self._key = key
        self._target = {**bucket.place(key), "UploadId": upload_id}
        self._parts: dict[int, tuple[str, bytes]] = {}
        self._lock = threading.Lock()

    def send(self, number: int, part: bytes) -> None:
        """See Upload."""
        bucket, digest = self._bucket, hashlib.sha256(part).digest()
        with bucket.failures(self._key):
            answer = bucket.client.upload_part(Body=part, PartNumber=number, **self._target, **bucket.checksum(digest))
        with self._lock:
            self._parts[number] = (answer["ETag"], digest)

    def complete(self) -> StoredObject:
        """See Upload."""
        bucket = self._bucket
        numbered = [(number, *self._parts[number]) for number in sorted(self._parts)]
        parts: list[Any] = [
            {"PartNumber": number, "ETag": etag, **bucket.checksum(digest)} for number, etag, digest in numbered
        ]
        composite = hashlib.sha256(b"".join(digest for _, _, digest in numbered)).digest()
        with bucket.failures(self._key):
            try:
                bucket.client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **self._target)
            except ClientError as error:
                # A retry finds the upload gone when the first answer was lost; whether it is there is asked below.
                if _code(error) != "NoSuchUpload":
                    raise
            return bucket.stored(self._key, f"{_encoded(composite)}-{len(numbered)}")

    def abort(self) -> None:
        """See Upload."""
        try:
            with self._bucket.failures(self._key):
                self._bucket.client.abort_multipart_upload(**self._target)
        except ObjectMissingError:
            return  # it was completed, or given back already
        except StoreUnavailableError as error:
            _log.warning("parts of an unfinished upload stay behind until the bucket's lifecycle rule: %s", error)


class _Bucket:
    """What a store, its contents and its uploads share."""

    def __init__(
        self, store: str, config: S3StoreConfig, client: "S3Client", failed: Callable[[StoreTrouble], None]
    ) -> None:
        self._store = store
        self._failed = failed
        self.config = config
        # The stubs want every argument by name; ours are put together from parts.
        self.client: Any = client
        self.sends_checksums = config.checksums is Checksums.WHEN_SUPPORTED

    def place(self, key: str) -> dict[str, str]:
        return {"Bucket": self.config.bucket, "Key": key}

    def checksum(self, digest: bytes) -> dict[str, str]:
        return {"ChecksumSHA256": _encoded(digest)} if self.sends_checksums else {}

    def stored(self, key: str, expected: str) -> StoredObject:
        """Ask what the store has; a server that keeps another digest than we sent has failed us."""
        mode = {"ChecksumMode": "ENABLED"} if self.sends_checksums else {}
        answer = self.client.head_object(**self.place(key), **mode)
        shown = answer.get("ChecksumSHA256")
        if shown is not None and shown != expected:
            self._failed(StoreTrouble.DIGEST_DIFFERS)
            raise StoreUnavailableError(
                f"store {self._store}: {key} is kept under another SHA-256 than it was sent with"
            )
        return StoredObject(answer["ContentLength"], digest_was_checked=shown is not None)

    @contextmanager
    def failures(self, key: str) -> Iterator[None]:
        """Turn what boto3 raises into the three failures of a store."""
        try:
            yield
        except ClientError as error:
            code, status = _code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code == "PreconditionFailed" or status == 412:
                raise ObjectExistsError(f"store {self._store}: {key} exists already") from error
            if code != "NoSuchBucket" and status == 404:
                raise ObjectMissingError(f"store {self._store}: {key} does not exist") from error
            raise self._unavailable(code, status) from error
        except (BotoCoreError, HTTPClientError, HTTPError, OSError) as error:
            raise self._unavailable(type(error).__name__, 0) from error

    def _unavailable(self, code: str, status: int) -> StoreUnavailableError:
        self._failed(trouble_of(code, status))
        return StoreUnavailableError(explain(self._store, self.config, code, status))


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _encoded(digest: bytes) -> str:
    return b64encode(digest).decode()


def _client(config: S3StoreConfig, credentials: StoreCredentials) -> "S3Client":
    # A session of its own that reads no configuration of the machine's: what counts is the backends file.
    session = botocore.session.Session()
    session.set_config_variable("config_file", os.devnull)
    session.set_config_variable("credentials_file", os.devnull)
    options: Any = {"addressing_style": config.addressing_style}
    if config.checksums is Checksums.WHEN_SUPPORTED:
        # The SHA-256 that goes with each part is itself signed; signing the bytes once more would hash them twice.
        options["payload_signing_enabled"] = False
    client: S3Client = boto3.session.Session(botocore_session=session).client(
        "s3",
        endpoint_url=config.endpoint,
        region_name=config.region,
        verify=config.ca_file,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=CONNECTIONS,
            s3=options,
            signature_version="s3v4",
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    return client
