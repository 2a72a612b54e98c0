"""One connection to one mover, kept up for ever: requests with answers, pings, and what it pushes of its keepers.

It knows nothing of other movers and decides nothing: who asks which link, and what a keeper that is seen by two of them
is, stands in `movers.py`. Both sides prove themselves with certificates of the installation's CA (PROTOCOL.md 3 and 9).
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandhold.cluster import reports
from sandhold.desired.world import Keeper, KeeperReport
from sandhold.errors import SandholdError, UnavailableError
from sandhold.heartbeats import Beat, Heartbeats
from sandhold.mover import wire
from sandhold.names import MOVER_TLS_NAME

_log = logging.getLogger(__name__)

MOST_IN_FLIGHT = 64
MOST_KEEPERS = 20_000
"""Keepers that one mover may tell us of; a mover that claims more is not believed about the rest."""
READ_BUFFER = 128 * 1024


@dataclass(frozen=True, slots=True)
class Times:
    """How long is too long, in seconds."""

    connect: float = 5.0
    ping_after: float = wire.PING_AFTER_SECONDS
    hang_up_after: float = wire.HANG_UP_AFTER_SECONDS
    first_retry: float = 0.1
    last_retry: float = 5.0


class RequestRefusedError(SandholdError):
    """A mover understood a request and said no. `code` is one of the protocol's, or empty where it was none."""

    def __init__(self, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable


class Listener(Protocol):
    """Who is told what a link learns. Called in the event loop; must not block or raise."""

    def keeper_said(self, address: str, pod_uid: str, keeper: Keeper) -> None:
        """A mover told of a keeper."""
        ...

    def keeper_left(self, address: str, pod_uid: str) -> None:
        """A keeper is no longer connected to that mover, or the mover no longer to us."""
        ...


class MoverLink:
    """The connection to the mover at one address. `run` dials until it is cancelled."""

    def __init__(
        self,
        address: str,
        tls: Callable[[], ssl.SSLContext],
        listener: Listener,
        times: Times | None = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.address = address
        self.synced = False
        """Whether the mover has told of all its keepers since it was dialled."""
        self._tls = tls
        self._listener = listener
        self._times = times or Times()
        self._heartbeats = heartbeats or Heartbeats()
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._last_id = 0
        self._room = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._keepers: set[str] = set()
        self._complained: set[str] = set()
        self._last_heard = 0.0
        self._last_sent = 0.0

    @property
    def live(self) -> bool:
        """Whether a request could be sent now."""
        return self._writer is not None

    async def run(self) -> None:
        """Dial, serve, and dial again with jittered back-off: a mover that is away is a normal event."""
        # A turn is a dial or a look at the silence, each of which ends by itself sooner than this.
        bound = self._times.connect + self._times.hang_up_after + self._times.last_retry + 30
        beat = self._heartbeats.loop(f"movers {self.address}", bound)
        try:
            await self._run(beat)
        finally:
            self._heartbeats.end(beat)

    async def _run(self, beat: Beat) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            beat()
            started = loop.time()
            try:
                async with asyncio.timeout(self._times.connect):
                    reader, writer = await self._dial()
                await self._serve(reader, writer, beat)
            except (OSError, SandholdError) as error:
                level = logging.INFO if failures == 0 else logging.DEBUG
                _log.log(level, "mover %s: not connected: %s", self.address, _words(error))
            # A mover that takes connections only to end them is treated like one that takes none.
            failures = 1 if loop.time() - started > 2 * self._times.last_retry else failures + 1
            highest = min(self._times.last_retry, self._times.first_retry * 2 ** min(failures - 1, 16))
            await asyncio.sleep(highest * random.uniform(0.5, 1.0))  # noqa: S311 - spreads dials, protects nothing

    async def request(self, verb: str, arguments: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Ask, and wait for the result. `UnavailableError` without an answer, `RequestRefusedError` for a no."""
        try:
            async with asyncio.timeout(seconds), self._room:
                response = await self._ask(verb, arguments)
        except TimeoutError as error:
            raise UnavailableError(f"mover {self.address} did not answer `{verb}` within {seconds:g} s") from error
        if response.get("ok") is True and isinstance(response.get("result"), Mapping):
            result: Mapping[str, Any] = response["result"]
            return result
        refusal = response.get("error")
        if response.get("ok") is not False or not isinstance(refusal, Mapping):
            raise UnavailableError(f"mover {self.address} answered `{verb}` with something that is no answer")
        raise RequestRefusedError(
            reports.code(refusal.get("code")),
            reports.text(refusal.get("message")),
            retryable=refusal.get("retryable") is True,
        )

    async def _ask(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._writer is None:
            raise UnavailableError(f"mover {self.address} is not connected")
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            await self._send(self._writer, {**arguments, "type": "request", "id": number, "verb": verb})
            return await answer
        finally:
            self._answers.pop(number, None)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.address.rpartition(":")
        return await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=self._tls(), server_hostname=MOVER_TLS_NAME, limit=READ_BUFFER
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, beat: Beat) -> None:
        """Until the connection ends, which raises, or until cancelled.

        Not a task group: one whose child fails while it is cancelled keeps the cancellation to itself.
        """
        self._writer = writer
        self._last_heard = self._last_sent = asyncio.get_running_loop().time()
        tasks = [asyncio.create_task(self._read(reader)), asyncio.create_task(self._keep_alive(writer, beat))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hang_up(writer)
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in ended:
            task.result()

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        self._writer, self.synced = None, False
        writer.transport.abort()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(UnavailableError(f"mover {self.address} hung up before it answered"))
        self._answers.clear()
        left, self._keepers = self._keepers, set()
        self._complained.clear()
        for pod_uid in left:
            self._listener.keeper_left(self.address, pod_uid)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await wire.read_message(reader)
            self._last_heard = loop.time()
            match message.get("type"):
                case "response":
                    self._answered(message)
                case "keeper":
                    self._told(message)
                case "synced":
                    self.synced = True
                case "ping":
                    pass
                case _:
                    raise wire.FrameError("the mover sent a message of an unknown type")

    async def _keep_alive(self, writer: asyncio.StreamWriter, beat: Beat) -> None:
        """Ping when we have been silent, hang up when the mover has."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if now >= self._last_heard + self._times.hang_up_after:
                raise UnavailableError(f"nothing was heard for {self._times.hang_up_after:g} s")
            if now >= self._last_sent + self._times.ping_after:
                async with asyncio.timeout(self._times.hang_up_after):
                    await self._send(writer, {"type": "ping"})
            due = min(self._last_heard + self._times.hang_up_after, self._last_sent + self._times.ping_after)
            beat()
            await asyncio.sleep(max(due - loop.time(), 0.01))

    async def _send(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        self._last_sent = asyncio.get_running_loop().time()
        await wire.write_json(writer, message)

    def _answered(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        answer = self._answers.get(number) if isinstance(number, int) else None
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _told(self, message: Mapping[str, Any]) -> None:
        try:
            pod_uid = reports.pod_uid(message.get("podUid"))
        except reports.MalformedError as error:
            raise wire.FrameError(f"the mover told of a keeper without a usable pod UID: {error}") from error
        if message.get("connected") is not True:
            if pod_uid in self._keepers:
                self._keepers.discard(pod_uid)
                self._listener.keeper_left(self.address, pod_uid)
            return
        if pod_uid not in self._keepers and len(self._keepers) >= MOST_KEEPERS:
            if self.address not in self._complained:
                self._complained.add(self.address)
                _log.warning("mover %s tells of more than %d keepers; the rest is ignored", self.address, MOST_KEEPERS)
            return
        self._keepers.add(pod_uid)
        self._listener.keeper_said(self.address, pod_uid, Keeper(connected=True, report=self._report(message, pod_uid)))

    def _report(self, message: Mapping[str, Any], pod_uid: str) -> KeeperReport | None:
        if message.get("report") is None:
            return None
        try:
            return reports.keeper_report(message["report"])
        except reports.MalformedError as error:
            # Once a keeper and connection: whoever controls a keeper must not be able to fill our log.
            if pod_uid not in self._complained:
                self._complained.add(pod_uid)
                _log.warning("keeper of pod %s: its report counts as not given: %s", pod_uid, error)
            return None


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
