"""Why a call to S3 failed, as a sentence for the person who can mend it.

Pure. Built from the store's configuration and the service's error code alone: a service's own message may repeat
access keys, and a library's may repeat whole requests.
"""

import re
from enum import StrEnum

from sandhold.snapshots.stores.settings import S3StoreConfig

_NO_RIGHTS = frozenset(
    ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AllAccessDisabled", "401", "403")
)
_NO_CONNECTION = frozenset(
    ("EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ProxyConnectionError")
)
_TOO_SLOW = frozenset(("ReadTimeoutError", "RequestTimeout", "SlowDown", "TooManyRequests", "429", "503"))


class StoreTrouble(StrEnum):
    """The kinds of failure that a person acts on differently; few, so that they can be counted apart."""

    BUCKET_MISSING = "bucket_missing"
    ACCESS_DENIED = "access_denied"
    NO_CONNECTION = "no_connection"
    UNTRUSTED_CERTIFICATE = "untrusted_certificate"
    TOO_SLOW = "too_slow"
    SERVICE_FAILED = "service_failed"
    DIGEST_DIFFERS = "digest_differs"
    REQUEST_REFUSED = "request_refused"


def trouble_of(code: str, status: int) -> StoreTrouble:
    """What a code of the service's or the name of a library's error comes to."""
    known = {code, str(status)}
    kinds = (
        (code == "NoSuchBucket", StoreTrouble.BUCKET_MISSING),
        (known & _NO_RIGHTS, StoreTrouble.ACCESS_DENIED),
        (known & _NO_CONNECTION, StoreTrouble.NO_CONNECTION),
        (code == "SSLError", StoreTrouble.UNTRUSTED_CERTIFICATE),
        (known & _TOO_SLOW, StoreTrouble.TOO_SLOW),
        (status >= 500, StoreTrouble.SERVICE_FAILED),
    )
    return next((kind for holds, kind in kinds if holds), StoreTrouble.REQUEST_REFUSED)


def explain(store: str, config: S3StoreConfig, code: str, status: int) -> str:
    """One sentence: which store and bucket, what happened, what to do."""
    where = f"store {store} (bucket {config.bucket} at {config.endpoint or f'AWS in {config.region}'})"
    match trouble_of(code, status):
        case StoreTrouble.BUCKET_MISSING:
            what = f"the bucket does not exist; create it, or correct stores.{store}.bucket"
        case StoreTrouble.ACCESS_DENIED:
            what = f"access is denied ({_shown(code)}); check the keys in the store's Secret and what they may do"
        case StoreTrouble.NO_CONNECTION:
            what = f"no connection; check that the service runs, stores.{store}.endpoint and network policies"
        case StoreTrouble.UNTRUSTED_CERTIFICATE:
            what = f"the endpoint's certificate is not trusted; set stores.{store}.ca_file"
        case StoreTrouble.TOO_SLOW:
            what = f"the service does not keep up ({_shown(code)}); it is tried again"
        case StoreTrouble.SERVICE_FAILED:
            what = f"the service fails (HTTP {status}); look at its log, it is tried again"
        case _:
            what = f"the service refused a request ({_shown(code)}, HTTP {status}); look at its log"
    return f"{where}: {what}"


def _shown(code: str) -> str:
    """A code as far as it is one: what a service sends is not ours to repeat at length."""
    return re.sub(r"[^A-Za-z0-9]", "", code)[:64] or "no code"
