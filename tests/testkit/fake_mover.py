"""A mover as a test double: it greets the real keeper over TLS, takes what it sends and says what a test wants.

It checks what a keeper says with the real mover's frames and message models, so that the two halves of PROTOCOL.md are
held against each other. It has no store, no TokenReview and no grants: a grant is whatever text a test gave out.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandhold.mover import wire
from sandhold.mover.messages import Done, Hello, Report, parse
from sandhold.mover.wire import Kind, Message
from testkit.pki import Installation

PATIENCE = 20.0
TOKEN = "header.payload.signature"


@dataclass(frozen=True)
class Snapshot:
    """An archive as a mover gives it back; a test may make it anything but right."""

    header: Message
    records: bytes
    layer: bytes


@dataclass(frozen=True)
class Received:
    """An archive as it came."""

    grant: str
    layer: bytes
    records: bytes
    done: Message

    def snapshot(self, epoch: int, sequence: int) -> Snapshot:
        """As a store would give it back."""
        digest = hashlib.sha256(self.layer).hexdigest()
        layer = {"key": "layers/x", "sha256": digest, "bytes": len(self.layer), "rawBytes": self.done["rawBytes"]}
        return Snapshot(
            header={
                "version": 1,
                "slot": "slot",
                "epoch": epoch,
                "sequence": sequence,
                "layers": [layer],
                "files": self.done["files"],
                "bytes": self.done["bytes"],
            },
            records=self.records,
            layer=self.layer,
        )


@dataclass
class FakeMover:
    """One mover on a port of its own. `start` and `stop` may be called again and again."""

    folder: Path
    installation: Installation = field(default_factory=Installation.new)
    port: int = 0
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    """By grant."""
    hellos: list[Hello] = field(default_factory=list)
    reports: list[Message] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    verdict: Callable[[Received], Message] = field(init=False)
    """What an archive that came whole is told. `stored` unless a test has another idea."""
    highest: int = 0
    """The number that the last archive was given."""
    hold_verdicts: asyncio.Event | None = None
    """An archive that came whole is told nothing until this is set."""
    refusal: Message | None = None
    """Said instead of a welcome."""
    fail_after_bytes: int | None = None
    """An archive hears `failed` when so much of its layer has come."""
    hold_restores: asyncio.Event | None = None
    """A restore stops before the end of its layer until this is set."""
    problems: list[str] = field(default_factory=list)
    """What the keeper said that the real mover would hang up on."""

    def __post_init__(self) -> None:
        self.verdict = self.stored
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._control: asyncio.StreamWriter | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.installation.write_mover_tls(self.folder)

    async def start(self) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        tls.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=tls, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Hang up on everybody."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def stored(self, _: Received) -> Message:
        """The verdict of a mover that has stored an archive and numbered it."""
        self.highest += 1
        return {"type": "stored", "key": "k", "sequence": self.highest}

    @property
    def report(self) -> Message:
        """The latest report."""
        return self.reports[-1]

    async def order(self, **order: Any) -> None:
        """Send an order to the keeper that has a control connection."""
        await self.until(lambda: self._control is not None)
        assert self._control is not None
        await wire.write_json(self._control, {"type": "order", "order": order})

    def say_raw(self, content: bytes) -> None:
        """Send bytes that need not be a frame."""
        assert self._control is not None
        self._control.write(content)

    async def until(self, holds: Callable[[], Any], patience: float = PATIENCE) -> None:
        """Wait for something that changes with a keeper's connections or reports."""
        try:
            async with asyncio.timeout(patience), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            last = self.reports[-1] if self.reports else None
            raise AssertionError(f"it did not come true; last report: {last}; problems: {self.problems}") from None

    async def until_report(self, holds: Callable[[Message], Any], patience: float = PATIENCE) -> Message:
        """Wait until the latest report fits."""
        await self.until(lambda: self.reports and holds(self.reports[-1]), patience)
        return self.reports[-1]

    async def meet(self, start: Callable[[], Any]) -> Message:
        """Start a keeper and wait for its first report: until then orders would reach the one before it."""
        known = {report["boot"] for report in self.reports}
        start()
        return await self.until_report(lambda report: report["boot"] not in known)

    def is_connected(self) -> bool:
        return self._control is not None

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except wire.PeerGoneError:
            pass
        except (wire.FrameError, AssertionError) as error:
            self.problems.append(str(error))
        except asyncio.CancelledError:
            pass  # stop() hangs up; a cancelled handler would be reported as a failure of the test
        finally:
            self._connections.discard(task)
            if self._control is writer:
                self._control = None
            writer.transport.abort()
            await self._notify()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = parse(Hello, await wire.read_message(reader, wire.LIMIT_HELLO))
        self.hellos.append(hello)
        if self.refusal is not None:
            await wire.write_json(writer, self.refusal)
            return
        await wire.write_json(writer, {"type": "welcome", "version": 1, "podUid": "pod"})
        match hello.purpose:
            case "control":
                await self._serve_control(reader, writer)
            case "archive":
                await self._serve_archive(hello.grant, reader, writer)
            case "restore":
                await self._serve_restore(hello.grant, reader, writer)

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._control = writer
        await self._notify()
        while True:
            message = await wire.read_message(reader)
            if message["type"] == "report":
                parse(Report, message["report"])
                self.reports.append(message["report"])
                await self._notify()

    async def _serve_archive(self, grant: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        layer = bytearray()
        while (frame := await wire.read_frame(reader)).kind is not Kind.END:
            assert frame.kind is Kind.DATA, frame
            layer += frame.payload
            if self.fail_after_bytes is not None and len(layer) > self.fail_after_bytes:
                failure = {"type": "failed", "code": "snapshot_too_large", "message": "too large", "retryable": False}
                await wire.write_json(writer, failure)
                await reader.read()
                return
        records = bytearray()
        while (frame := await wire.read_frame(reader)).kind is not Kind.END:
            records += frame.payload
        message = await wire.read_message(reader)
        parse(Done, message)
        received = Received(grant, bytes(layer), bytes(records), message)
        self.received.append(received)
        await wire.write_json(writer, {"type": "wait"})
        await self._notify()
        if self.hold_verdicts is not None:
            await self.hold_verdicts.wait()
        await wire.write_json(writer, self.verdict(received))
        await self._notify()
        await reader.read()

    async def _serve_restore(self, grant: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        snapshot = self.snapshots.get(grant)
        if snapshot is None:
            failure = {"type": "failed", "code": "snapshot_store_unavailable", "message": "down", "retryable": True}
            await wire.write_json(writer, failure)
            await reader.read()
            return
        await wire.write_json(writer, {"type": "manifest", "header": snapshot.header})
        await self._send_part(writer, snapshot.records)
        await self._send_layer(writer, snapshot.layer)
        sums = [{"sha256": layer["sha256"], "bytes": layer["bytes"]} for layer in snapshot.header["layers"]]
        await wire.write_json(writer, {"type": "end", "layers": sums})
        await reader.read()

    async def _send_layer(self, writer: asyncio.StreamWriter, layer: bytes) -> None:
        held = len(layer) * 3 // 4 if self.hold_restores is not None else 0
        for start in range(0, held, wire.LIMIT_DATA):
            await wire.write_data(writer, layer[start : min(start + wire.LIMIT_DATA, held)])
        if self.hold_restores is not None:
            await self.hold_restores.wait()
        await self._send_part(writer, layer[held:])

    async def _send_part(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        for start in range(0, len(content), wire.LIMIT_DATA):
            await wire.write_data(writer, content[start : start + wire.LIMIT_DATA])
        await wire.write_end(writer)
