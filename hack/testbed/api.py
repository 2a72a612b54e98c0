"""The few calls that bringing a cluster up makes to its API server, without starting a kubectl for each."""

import http.client
import json
import ssl
import urllib.parse
from typing import Any

from testbed import pki, places
from testbed.failure import TestbedError

CALL_SECONDS = 10


def call(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request as the administrator; the answer's body, or an error with the server's own words."""
    status, answer = _exchange(method, path, body)
    if status >= 300:
        raise TestbedError(f"{method} {path}: {status} {answer[:500]}")
    parsed: dict[str, Any] = json.loads(answer)
    return parsed


def ready() -> bool:
    """Whether the API server says that it serves; one that is not there yet is merely not ready."""
    try:
        return _exchange("GET", "/readyz", None)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def apply(path: str, document: dict[str, Any]) -> None:
    """Server-side apply: makes the object or takes it over, and changes nothing when it is right already."""
    query = urllib.parse.urlencode({"fieldManager": "sandhold-testbed", "force": "true"})
    call("PATCH", f"{path}?{query}", document)


def node_conditions() -> dict[str, str] | None:
    """The node's conditions, or None as long as the kubelet has not made it known."""
    for node in call("GET", "/api/v1/nodes")["items"]:
        if node["metadata"]["name"] == places.NODE:
            return {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
    return None


def _exchange(method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(pki.directory() / "ca.crt"))
    context.load_cert_chain(pki.directory() / "admin.crt", pki.directory() / "admin.key")
    connection = http.client.HTTPSConnection(places.NODE_ADDRESS, 6443, timeout=CALL_SECONDS, context=context)
    try:
        content = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": content})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
