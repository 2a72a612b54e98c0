"""An API server that answers TokenReviews and nothing else, for tests of the mover without a cluster.

It knows the tokens that a test has issued. That real API servers answer in this form is asserted by the tests on the
real cluster.
"""

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
OWN_TOKEN = "the-movers-own-token"


class TokenReviewServer:
    """Issues tokens and reviews them."""

    def __init__(self) -> None:
        self._tokens: dict[str, dict[str, Any]] = {}
        self.reviews = 0
        self.fails_with: int | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def issue(self, pod_uid: str, *, pod_name: str = "pod", namespace: str = "team", audience: str = "") -> str:
        """A token bound to a pod."""
        token = ".".join(secrets.token_urlsafe(200) for _ in range(3))
        self._tokens[token] = {
            "audiences": [audience or "sandhold-mover"],
            "user": {
                "username": f"system:serviceaccount:{namespace}:sandbox",
                "uid": "0c4b2b1e-6a5c-4a9e-9d53-7a2f8a5f3c11",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "extra": {
                    "authentication.kubernetes.io/pod-name": [pod_name],
                    "authentication.kubernetes.io/pod-uid": [pod_uid],
                },
            },
        }
        return token

    def issue_unbound(self) -> str:
        """A token of a service account that is bound to no pod."""
        token = self.issue("")
        del self._tokens[token]["user"]["extra"]
        return token

    def revoke(self, token: str) -> None:
        """Its pod is gone."""
        del self._tokens[token]

    def review(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with its status, as an API server answers it."""
        self.reviews += 1
        known = self._tokens.get(document["spec"]["token"])
        asked = document["spec"].get("audiences", [])
        if known is None or not set(asked) & set(known["audiences"]):
            status: dict[str, Any] = {"user": {}, "error": "[invalid bearer token, token lookup failed]"}
        else:
            audiences = [audience for audience in asked if audience in known["audiences"]]
            status = {"authenticated": True, "user": known["user"], "audiences": audiences}
        return {**document, "status": status}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            """Head and body are two packets: the second must not wait for the delayed acknowledgement of the first."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.fails_with is not None:
                    self._send(outer.fails_with, {"kind": "Status"})
                elif self.path != _PATH or self.headers["Authorization"] != f"Bearer {OWN_TOKEN}":
                    self._send(403, {"kind": "Status"})
                else:
                    self._send(201, outer.review(json.loads(body)))

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

            def _send(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler
