"""/livez, /readyz and /metrics: the smallest HTTP that a kubelet and a scraper understand; the canary's port.

Own, because the mover needs a dozen lines of HTTP and no server of it. It takes nothing in, and what is asked badly or
slowly is hung up on.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

_LONGEST_REQUEST = 4096
_SECONDS = 5.0
_AT_ONCE = 32
_TEXT = "text/plain"

Page = Callable[[], bytes]


class PageDoor:
    """A port that answers GET for a few fixed paths."""

    def __init__(self, pages: Mapping[bytes, Page]) -> None:
        self._pages = pages
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one answer."""
        self._open += 1
        try:
            if self._open <= _AT_ONCE:
                async with asyncio.timeout(_SECONDS):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(request))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # whoever asks so badly asks again
        finally:
            self._open -= 1
            writer.close()

    async def start(self, address: str, port: int) -> asyncio.Server:
        """Listen."""
        return await asyncio.start_server(self.serve, address, port, limit=_LONGEST_REQUEST)

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        page = self._pages.get(rest.partition(b" ")[0].partition(b"?")[0])
        if page is None or method != b"GET":
            return _response("404 Not Found", b"not found")
        return page()


def health_pages(is_ready: Callable[[], bool]) -> Mapping[bytes, Page]:
    """Alive means that the loop turns, and so answers; ready is what the program says."""

    def ready() -> bytes:
        return _response("200 OK", b"ok") if is_ready() else _response("503 Service Unavailable", b"not ready")

    return {b"/livez": lambda: _response("200 OK", b"ok"), b"/readyz": ready}


def metrics_pages() -> Mapping[bytes, Page]:
    """What was measured in this process."""
    return {b"/metrics": lambda: _response("200 OK", generate_latest(), CONTENT_TYPE_LATEST)}


def _response(status: str, body: bytes, content_type: str = _TEXT) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def close_at_once(connection: socket.socket, address: str) -> None:
    """The canary: to be connected is all that a probe wants to know."""
    del address
    with suppress(OSError):
        connection.close()
