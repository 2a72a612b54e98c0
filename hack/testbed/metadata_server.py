"""Program: answers HTTP on the cloud metadata address inside the cluster's network.

A probe that asserts "no sandbox reaches the metadata service" proves nothing where nobody would answer; this is the
somebody. It holds no secret: only a document that says what it is.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOCUMENT = b"sandhold-testbed metadata: a sandbox that can read this is not walled\n"


class Metadata(BaseHTTPRequestHandler):
    """The same answer to every GET and PUT (PUT is how a cloud hands out its session tokens)."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the document, whatever the path."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(DOCUMENT)))
        self.end_headers()
        self.wfile.write(DOCUMENT)

    def do_PUT(self) -> None:
        """Take what is sent and answer as to a GET."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Metadata).serve_forever()
