"""A port that is opened to others: accepts, counts, and gives each connection a task of its own.

Own accept loop, because a server of asyncio's shows a connection only after its TLS handshake, when it has cost the
most. Ends in order: no new ones, then those that may go, then the rest.
"""

import asyncio
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from typing import cast

from sandhold.mover.line import BUFFER, Line

_BACKLOG = 1024
_TLS_BUFFER = 16 * 1024
_PAUSE_SECONDS = 0.2
_HANDSHAKE_SECONDS = 10
_SHUTDOWN_SECONDS = 3

_log = logging.getLogger(__name__)

Accepted = Callable[[socket.socket, str], None]


def listen(address: str, port: int) -> socket.socket:
    """A listening socket. An address of IPv6 takes IPv4 too where the system does so."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    listening = socket.create_server((address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    listening.settimeout(0)
    return listening


async def accept_forever(listening: socket.socket, accepted: Accepted) -> None:
    """Hand every new connection over. Running out of descriptors is a pause, not an end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, peer = await loop.sock_accept(listening)
        except OSError as error:
            _log.warning("no connection can be accepted: %s", error.strerror)
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        connection.settimeout(0)
        accepted(connection, str(peer[0]))


class _SmallTls(SSLProtocol):
    """TLS as asyncio does it, over whatever loop, but with a small buffer: an idle keeper costs 51 KiB.

    asyncio and uvloop give every connection 256 KiB for reading. uvloop's are fixed, and what they cost depends on
    where the allocator puts them; a transfer gains nothing by them. Measured both ways.
    """

    max_size = _TLS_BUFFER


class _Stream(asyncio.StreamReaderProtocol):
    """Keeps the transport that it was connected with: the one above TLS."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)


async def secure(connection: socket.socket, context: ssl.SSLContext) -> Line:
    """Do the handshake as the server."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=BUFFER, loop=loop)
    stream = _Stream(reader, loop=loop)
    done: asyncio.Future[None] = loop.create_future()
    tls = _SmallTls(
        loop,
        stream,
        context,
        done,
        server_side=True,
        ssl_handshake_timeout=_HANDSHAKE_SECONDS,
        ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    raw, _ = await loop.connect_accepted_socket(lambda: tls, connection)
    try:
        await done
    except BaseException:
        raw.abort()
        raise
    return Line(reader, asyncio.StreamWriter(stream.transport, stream, reader, loop))


class Tasks:
    """The connections of one port, one task each."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Run a connection. How it ended is logged where it is known; what nobody foresaw is logged here."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def wait(self, seconds: float) -> None:
        """Wait for all of them, so long and no longer."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def cancel(self) -> None:
        """End all of them now."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection ended in an error that nobody foresaw", exc_info=error)
