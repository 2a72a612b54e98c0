"""A store's configuration, and its troubles in words."""

from typing import Any

import pytest
from pydantic import ValidationError

from sandhold.snapshots.stores.failures import explain
from sandhold.snapshots.stores.settings import S3StoreConfig

FIELDS: dict[str, Any] = {"type": "s3", "bucket": "archives", "endpoint": "https://s3.example.org:9000"}


def test_what_is_left_out_has_safe_values() -> None:
    config = S3StoreConfig.model_validate(FIELDS)
    assert (config.verify, config.checksums, config.addressing_style) == ("Checksum", "WhenSupported", "path")


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "https://user:password@s3.example.org"},
        {"endpoint": "https://s3.example.org/bucket"},
        {"endpoint": "ftp://s3.example.org"},
        {"endpoint": "s3.example.org"},
        {"bucket": "UPPER"},
        {"bucket": "a/b"},
        {"prefix": "no-slash-at-its-end"},
        {"prefix": "/absolute/"},
        {"prefix": "a/../b/"},
        {"ca_file": "relative.pem"},
        {"verify": "Never"},
        {"access_key_id": "x"},
    ],
)
def test_what_would_not_work_or_hold_a_secret_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        S3StoreConfig.model_validate({**FIELDS, **change})


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("NoSuchBucket", 404, "create it, or correct stores.main.bucket"),
        ("AccessDenied", 403, "access is denied (AccessDenied); check the keys"),
        ("403", 403, "access is denied"),
        ("EndpointConnectionError", 0, "check that the service runs, stores.main.endpoint"),
        ("SSLError", 0, "set stores.main.ca_file"),
        ("SlowDown", 503, "does not keep up"),
        ("InternalError", 500, "HTTP 500"),
        ("Weird<script>", 400, "refused a request (Weirdscript, HTTP 400)"),
        ("", 0, "refused a request (no code, HTTP 0)"),
    ],
)
def test_every_trouble_names_store_and_bucket_and_says_what_to_do(code: str, status: int, words: str) -> None:
    sentence = explain("main", S3StoreConfig.model_validate(FIELDS), code, status)
    assert sentence.startswith("store main (bucket archives at https://s3.example.org:9000): ")
    assert words in sentence
