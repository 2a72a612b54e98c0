"""The one call that the S3 server needs of us: making the bucket, signed by hand because nothing is installed yet."""

import hashlib
import hmac
import http.client
from datetime import UTC, datetime

from testbed import places
from testbed.failure import TestbedError

CALL_SECONDS = 5


def ready() -> bool:
    """Whether the server answers at all."""
    try:
        return _signed("GET", "/")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def ensure_bucket() -> None:
    """Make the test bucket unless it is there."""
    path = f"/{places.S3_BUCKET}"
    if _signed("HEAD", path)[0] == 200:
        return
    status, said = _signed("PUT", path)
    if status not in (200, 409):
        raise TestbedError(f"the bucket {places.S3_BUCKET} could not be made: {status} {said[:300]}")


def _signed(method: str, path: str) -> tuple[int, str]:
    """A request without a body, with AWS signature version 4."""
    host = places.S3_URL.removeprefix("http://")
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, "", *(f"{k}:{headers[k]}" for k in sorted(headers)), "", names, empty])
    scope = f"{now[:8]}/{places.S3_REGION}/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{places.S3_SECRET_KEY}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={places.S3_ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    connection = http.client.HTTPConnection(host, timeout=CALL_SECONDS)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()
