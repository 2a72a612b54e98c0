"""Why a call to S3 failed, as a sentence for the person who can mend it.

Pure. Built from the store's configuration and the service's error code alone: a service's own message may repeat
access keys, and a library's may repeat whole requests.
"""

import re

from sandhold.snapshots.stores.settings import S3StoreConfig

_NO_RIGHTS = frozenset(
    ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AllAccessDisabled", "401", "403")
)
_NO_CONNECTION = frozenset(
    ("EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ProxyConnectionError")
)
_TOO_SLOW = frozenset(("ReadTimeoutError", "RequestTimeout", "SlowDown", "TooManyRequests", "429", "503"))


def explain(store: str, config: S3StoreConfig, code: str, status: int) -> str:
    """One sentence: which store and bucket, what happened, what to do."""
    where = f"store {store} (bucket {config.bucket} at {config.endpoint or f'AWS in {config.region}'})"
    known = {code, str(status)}
    sentences = (
        (code == "NoSuchBucket", f"the bucket does not exist; create it, or correct stores.{store}.bucket"),
        (
            known & _NO_RIGHTS,
            f"access is denied ({_shown(code)}); check the keys in the store's Secret and what they may do",
        ),
        (
            known & _NO_CONNECTION,
            f"no connection; check that the service runs, stores.{store}.endpoint and network policies",
        ),
        (code == "SSLError", f"the endpoint's certificate is not trusted; set stores.{store}.ca_file"),
        (known & _TOO_SLOW, f"the service does not keep up ({_shown(code)}); it is tried again"),
        (status >= 500, f"the service fails (HTTP {status}); look at its log, it is tried again"),
    )
    fallback = f"the service refused a request ({_shown(code)}, HTTP {status}); look at its log"
    return f"{where}: {next((sentence for holds, sentence in sentences if holds), fallback)}"


def _shown(code: str) -> str:
    """A code as far as it is one: what a service sends is not ours to repeat at length."""
    return re.sub(r"[^A-Za-z0-9]", "", code)[:64] or "no code"
