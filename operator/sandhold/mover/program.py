"""`sandhold-mover`: builds the parts from the settings, opens the ports, and closes them in order.

An end begins with SIGTERM: not ready, no new connections, keepers are let go so that they find another mover, running
transfers go on for a bounded time. What is cut off then leaves nothing visible, and its keeper does it again.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time

import uvloop
from pydantic import ValidationError

from sandhold import logs
from sandhold.errors import SandholdError
from sandhold.mover import wire
from sandhold.mover.beginnings import Beginnings
from sandhold.mover.door import Tasks, accept_forever, listen
from sandhold.mover.health import PageDoor, close_at_once, health_pages, metrics_pages
from sandhold.mover.identity import TokenReviewer
from sandhold.mover.keeper_door import KeeperDoor
from sandhold.mover.keepers import Keepers
from sandhold.mover.limits import Limits
from sandhold.mover.operator_door import OperatorDoor
from sandhold.mover.requests import Requests
from sandhold.mover.stores import Stores
from sandhold.mover.threads import Threads
from sandhold.mover.tls import TlsFiles
from sandhold.mover.transfers import Transfers
from sandhold.settings import MoverSettings

_HEARTBEAT_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Mover:
    """One mover, from its ports' opening to their closing."""

    def __init__(self, settings: MoverSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        tls = TlsFiles(settings.tls_directory)
        stores = Stores(settings.backends, settings.stores_directory)
        self._threads = Threads(limits.transfer_threads)
        self._look_threads = Threads(limits.look_threads)
        self._request_threads = Threads(limits.request_threads)
        self._reviewer = TokenReviewer(
            settings.kubernetes_api, settings.service_account_directory, at_once=limits.reviews
        )
        self._keepers = Keepers()
        beginnings = Beginnings(stores, self._look_threads, limits)
        transfers = Transfers(stores, self._threads, beginnings, limits)
        self._keeper_door = KeeperDoor(tls, self._reviewer, self._keepers, transfers, limits)
        self._operator_door = OperatorDoor(
            tls, self._keepers, Requests(self._keepers, stores, self._request_threads), limits
        )
        self._tasks = Tasks()
        self._is_ready = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; probes and metrics to the very end."""
        settings = self._settings
        async with contextlib.AsyncExitStack() as pages:
            for port, of in (
                (settings.health_port, health_pages(lambda: self._is_ready)),
                (settings.metrics_port, metrics_pages()),
            ):
                server = await PageDoor(of).start(settings.listen_address, port)
                pages.callback(server.close)
            await self._serve(stop)

    async def _serve(self, stop: asyncio.Event) -> None:
        settings = self._settings
        ports = (
            # First to open and last to close: who reaches the keepers' port and not this one met a wall.
            (settings.canary_port, close_at_once),
            (settings.keeper_port, self._keeper_door.accepted),
            (settings.operator_port, self._operator_door.accepted),
        )
        listening: list[socket.socket] = []
        endless = [self._tasks.start(self._heartbeat())]
        for port, accepted in ports:
            listening.append(listen(settings.listen_address, port))
            endless.append(self._tasks.start(accept_forever(listening[-1], accepted)))
        self._is_ready = True
        _log.info("serving keepers on port %d, operators on port %d", settings.keeper_port, settings.operator_port)
        told = self._tasks.start(_wait_for(stop))
        done, _ = await asyncio.wait([told, *endless], return_when=asyncio.FIRST_COMPLETED)
        await self._end(listening)
        for task in done - {told}:
            # What never ends has ended: a new process is the remedy.
            task.result()

    async def _heartbeat(self) -> None:
        """Signs of life on every connection on which we were silent; one timer for all of them."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            silent_since = time.monotonic() - wire.PING_AFTER_SECONDS + _HEARTBEAT_SECONDS
            for line in (
                *self._keepers.lines_silent_since(silent_since),
                *self._operator_door.lines_silent_since(silent_since),
            ):
                line.ping()

    async def _end(self, listening: list[socket.socket]) -> None:
        self._is_ready = False
        await self._tasks.cancel()
        for one in reversed(listening):
            one.close()
        await self._keeper_door.proving.cancel()
        await self._keeper_door.control.cancel()
        running = len(self._keeper_door.transferring)
        _log.info("ending; %d transfers may go on for %g s", running, self._limits.drain_seconds)
        await self._keeper_door.transferring.wait(self._limits.drain_seconds)
        await self._keeper_door.transferring.cancel()
        await self._operator_door.connections.cancel()
        await self._threads.close(self._limits.cleanup_seconds)
        await self._look_threads.close(self._limits.cleanup_seconds)
        await self._request_threads.close(self._limits.cleanup_seconds)
        await self._reviewer.close()


async def _wait_for(stop: asyncio.Event) -> None:
    await stop.wait()


async def serve(settings: MoverSettings) -> None:
    """Run a mover until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Mover(settings, Limits()).run(stop)


def main() -> None:
    """The console entry point: 0 after an orderly end, 2 with one sentence for a wrong configuration."""
    try:
        settings = MoverSettings()
        logs.configure(settings.log_level, settings.log_format)
        uvloop.run(serve(settings))
    except (SandholdError, ValidationError, ValueError, OSError) as error:
        sys.stderr.write(f"sandhold-mover: {error}\n")
        sys.exit(2)
