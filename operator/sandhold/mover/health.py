"""/livez and /readyz: the smallest HTTP that a kubelet understands, and a port that closes whatever it accepts."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

_LONGEST_REQUEST = 4096
_SECONDS = 5.0
_AT_ONCE = 32


class HealthDoor:
    """Answers probes. Alive means that the loop turns; ready is what the program says."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
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
        path = request.split(b" ", 2)[1:2]
        if path == [b"/livez"]:
            return _response("200 OK", "ok")
        if path == [b"/readyz"]:
            return _response("200 OK", "ok") if self._is_ready() else _response("503 Service Unavailable", "not ready")
        return _response("404 Not Found", "not found")


def _response(status: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


def close_at_once(connection: socket.socket, address: str) -> None:
    """The canary: to be connected is all that a probe wants to know."""
    del address
    with suppress(OSError):
        connection.close()
