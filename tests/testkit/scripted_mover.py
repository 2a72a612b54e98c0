"""The operator's side of a mover as a small real TLS server, whose answers a test scripts.

For what a real mover does not do on demand: keeping silent, answering late, talking nonsense.
"""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519

from sandhold.cluster import certificates, pki
from sandhold.cluster.certificates import Authority
from sandhold.mover import wire

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


def new_authority() -> Authority:
    """A CA that is valid now."""
    return certificates.make_authority(datetime.now(UTC), certificates.new_key(), ed25519.Ed25519PrivateKey.generate())


def operator_tls(authority: Authority) -> pki.OperatorTls:
    """What the operator dials with."""
    return pki.OperatorTls(authority, lambda: datetime.now(UTC))


def server_context(authority: Authority, leaf: certificates.Leaf | None = None) -> ssl.SSLContext:
    """What a mover serves its operator port with."""
    leaf = leaf or certificates.make_mover_leaf(authority, datetime.now(UTC), certificates.new_key())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder, "chain.pem")
        chain.write_bytes(certificates.pem_of_key(leaf.key) + certificates.pem_of_certificate(leaf.certificate))
        context.load_cert_chain(chain)
    return context


class ScriptedMover:
    """Tells its keepers, then answers requests as `answer` says (None: not at all)."""

    def __init__(self, authority: Authority, leaf: certificates.Leaf | None = None) -> None:
        self.keepers: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.pings = 0
        self.connections = 0
        self.answer: Answer = lambda _: {"ok": True, "result": {}}
        self.tells_synced = True
        self.address = ""
        self._context = server_context(authority, leaf)
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        self.hang_up()
        await asyncio.sleep(0)

    def hang_up(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def tell(self, message: dict[str, Any]) -> None:
        """Push a message over every connection."""
        for writer in self._writers:
            await wire.write_json(writer, message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            for keeper in self.keepers:
                await wire.write_json(writer, keeper)
            if self.tells_synced:
                await wire.write_json(writer, {"type": "synced"})
            while True:
                message = await wire.read_message(reader)
                if message["type"] == "ping":
                    self.pings += 1
                    continue
                self.requests.append(message)
                answer = self.answer(message)
                if answer is not None:
                    await wire.write_json(writer, {"type": "response", "id": message["id"], **answer})
        except wire.PeerGoneError:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def scripted_movers(authority: Authority, count: int) -> AsyncIterator[list[ScriptedMover]]:
    """So many movers, listening."""
    movers = [ScriptedMover(authority) for _ in range(count)]
    try:
        for mover in movers:
            await mover.start()
        yield movers
    finally:
        for mover in movers:
            await mover.stop()


def keeper_message(pod_uid: str, *, connected: bool = True, report: Any = None) -> dict[str, Any]:
    """What a mover pushes of a keeper."""
    return {
        "type": "keeper",
        "podUid": pod_uid,
        "podName": "pod",
        "namespace": "research",
        "connected": connected,
        "report": report,
    }
