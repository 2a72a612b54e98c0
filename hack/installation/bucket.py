"""The test cluster's object store as it really is, read with a client that is not the mover's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from testbed import places

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def client() -> "S3Client":
    """A client with short bounds, so that a store that is away is an error and not a hang."""
    return boto3.client(
        "s3",
        endpoint_url=places.S3_URL,
        region_name=places.S3_REGION,
        aws_access_key_id=places.S3_ACCESS_KEY,
        aws_secret_access_key=places.S3_SECRET_KEY,
        config=Config(
            connect_timeout=3, read_timeout=20, retries={"total_max_attempts": 2}, s3={"addressing_style": "path"}
        ),
    )


def sizes(prefix: str = "", bucket: str = places.S3_BUCKET) -> dict[str, int]:
    """All keys below a prefix with their sizes."""
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}


def read(key: str, bucket: str = places.S3_BUCKET) -> bytes:
    """The content of an object."""
    return client().get_object(Bucket=bucket, Key=key)["Body"].read()


def write(key: str, content: bytes, bucket: str = places.S3_BUCKET) -> None:
    """Write or replace an object."""
    client().put_object(Bucket=bucket, Key=key, Body=content)


def remove(key: str, bucket: str = places.S3_BUCKET) -> None:
    """Remove an object."""
    client().delete_object(Bucket=bucket, Key=key)


@contextmanager
def replaced(key: str, content: bytes, bucket: str = places.S3_BUCKET) -> Iterator[None]:
    """Have other content there for a while."""
    before = read(key, bucket)
    write(key, content, bucket)
    try:
        yield
    finally:
        write(key, before, bucket)
