"""The operator's port: orders go through it to keepers, questions about slots are answered, news of keepers is pushed.

A peer is let in by its certificate alone. Requests run side by side, so that one waiting for a store delays no order;
how many is bounded, and beyond that the mover simply stops reading.
"""

import asyncio
import logging
import socket
import ssl
import time
from contextlib import suppress
from typing import Any

from sandhold.errors import SandholdError
from sandhold.mover.door import Tasks, secure
from sandhold.mover.keepers import Keepers, Subscription
from sandhold.mover.limits import Limits
from sandhold.mover.line import Line
from sandhold.mover.outcome import Outcome, outcome_of
from sandhold.mover.requests import Requests
from sandhold.mover.tls import TlsFiles, is_operator
from sandhold.mover.wire import FrameError, Message, PeerGoneError

_SHORTEST_BETWEEN_NEWS = 0.005

_log = logging.getLogger(__name__)


class OperatorDoor:
    """All connections to the operator's port."""

    def __init__(self, tls: TlsFiles, keepers: Keepers, requests: Requests, limits: Limits) -> None:
        self._tls = tls
        self._keepers = keepers
        self._requests = requests
        self._limits = limits
        self._lines: set[Line] = set()
        self._proving: dict[asyncio.Task[None], None] = {}
        self.connections = Tasks()

    def accepted(self, connection: socket.socket, address: str) -> None:
        """A new connection. Where too many are unproven the oldest makes room: the operator proves itself at once."""
        while len(self._proving) >= self._limits.operators_unproven:
            oldest = next(iter(self._proving))
            del self._proving[oldest]
            oldest.cancel()
        task = self.connections.start(self._serve(connection, address))
        self._proving[task] = None
        task.add_done_callback(self._proved)

    def lines_silent_since(self, moment: float) -> list[Line]:
        """Connections that we have sent nothing on since then."""
        return [line for line in self._lines if line.last_sent <= moment]

    def _proved(self, task: "asyncio.Task[None] | None") -> None:
        if task is not None:
            self._proving.pop(task, None)

    async def _serve(self, connection: socket.socket, address: str) -> None:
        line: Line | None = None
        try:
            line = await secure(connection, self._tls.for_operators())
            self._proved(asyncio.current_task())
            if not is_operator(line.peer()):
                _log.warning("%s: a certificate that is not the operator's", address)
                return
            if len(self._lines) >= self._limits.operators:
                _log.warning("%s: %d operators are connected already", address, self._limits.operators)
                return
            _log.info("%s: operator connected", address)
            self._lines.add(line)
            await _Conversation(line, self._keepers, self._requests, self._limits.requests).run()
        except (PeerGoneError, FrameError, ssl.SSLError, OSError) as error:
            _log.info("%s: connection to the operator's port ended: %s", address, error)
        finally:
            if line is not None:
                self._lines.discard(line)
                line.close()


class _Conversation:
    """One operator's connection."""

    def __init__(self, line: Line, keepers: Keepers, requests: Requests, at_once: int) -> None:
        self._line = line
        self._keepers = keepers
        self._requests = requests
        self._turns = asyncio.Semaphore(at_once)

    async def run(self) -> None:
        """Until either side ends it."""
        subscription = self._keepers.subscribe()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._push(subscription))
                await self._answer(group)
        except BaseExceptionGroup as errors:
            # Not `except*`: before Python 3.11.4 what is raised in there comes out inside a group again.
            _, defects = errors.split((PeerGoneError, FrameError))
            raise (defects or errors.exceptions[0]) from None
        finally:
            self._keepers.unsubscribe(subscription)

    async def _push(self, subscription: Subscription) -> None:
        """Everybody who is here, then `synced`, then what changes, never more than the newest of each."""
        for state in subscription.take_now():
            await self._line.say(state.as_message())
        await self._line.say({"type": "synced"})
        while True:
            for state in await subscription.take():
                await self._line.say(state.as_message())
            await asyncio.sleep(_SHORTEST_BETWEEN_NEWS)

    async def _answer(self, group: asyncio.TaskGroup) -> None:
        while True:
            message = (await self._line.receive()).message()
            if message.get("type") == "request":
                await self._turns.acquire()
                group.create_task(self._respond(message))
            elif message.get("type") != "ping":
                raise FrameError("a message that an operator does not send")

    async def _respond(self, message: Message) -> None:
        try:
            response = await self._try(message)
            with suppress(PeerGoneError):  # whoever reads notices
                await self._line.say({"type": "response", "id": message.get("id"), **response})
        finally:
            self._turns.release()

    async def _try(self, message: Message) -> dict[str, Any]:
        started = time.monotonic()
        try:
            result = await self._requests.answer(message)
        except FrameError as error:
            outcome = Outcome("request_refused", str(error), retryable=False)
        except SandholdError as error:
            outcome = outcome_of(error)
        except Exception as error:  # noqa: BLE001 - an operator that gets no answer waits for nothing
            _log.exception("a request failed in a way that nobody foresaw")
            outcome = outcome_of(error)
        else:
            return {"ok": True, "result": result}
        seconds = time.monotonic() - started
        _log.warning("%s failed after %.2f s: %s: %s", message.get("verb"), seconds, outcome.code, outcome.message)
        return {"ok": False, "error": outcome.as_error()}
