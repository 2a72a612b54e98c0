"""Archives and restores that run here: so many at once, each told how it ended, none left half done."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sandhold.errors import SandholdError
from sandhold.logs import about
from sandhold.mover import metrics
from sandhold.mover.archive import ArchiveReceiver
from sandhold.mover.beginnings import Beginnings
from sandhold.mover.grant import Grant, Verb
from sandhold.mover.limits import Limits
from sandhold.mover.line import Line
from sandhold.mover.outcome import ProducerError, outcome_of
from sandhold.mover.restore import ArchiveSender
from sandhold.mover.stores import OpenStore, Stores
from sandhold.mover.threads import Threads
from sandhold.mover.wire import Message, PeerGoneError
from sandhold.snapshots.manifest import Generation, Header
from sandhold.snapshots.pruning import prune
from sandhold.snapshots.stores.protocol import StoreUnavailableError

_log = logging.getLogger(__name__)


class Transfers:
    """Everything that moves bytes."""

    def __init__(self, stores: Stores, threads: Threads, beginnings: Beginnings, limits: Limits) -> None:
        self._stores = stores
        self._beginnings = beginnings
        self._threads = threads
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.transfers)
        self._prunings = asyncio.Semaphore(limits.prunings)
        self._to_prune: set[str] = set()
        self._running: dict[tuple[str, Verb], asyncio.Task[None]] = {}

    async def run(self, line: Line, grant: Grant, welcome: Message) -> None:
        """One transfer on a proven connection, from `welcome` to its last word.

        A pod has one archive and one restore at a time: a keeper that begins anew has given the earlier one up.
        """
        key, task = (grant.pod_uid, grant.verb), asyncio.current_task()
        earlier = self._running.get(key)
        if task is not None:
            self._running[key] = task
        try:
            if earlier is not None:
                _log.info("the pod begins its %s anew; the earlier one ends", grant.verb)
                earlier.cancel()
                # One whose manifest is on its way comes to be all the same: this one is to follow it.
                await asyncio.wait([earlier], timeout=self._limits.earlier_seconds)
            with (
                about(slot=grant.slot, epoch=grant.epoch, verb=grant.verb.value),
                metrics.TRANSFERS_RUNNING.labels(grant.verb.value).track_inprogress(),
            ):
                await self._run(line, grant, welcome)
        finally:
            if self._running.get(key) is task:
                del self._running[key]

    async def _run(self, line: Line, grant: Grant, welcome: Message) -> None:
        started, outcome = time.monotonic(), "ended"
        try:
            size = await self._within_its_time(line, grant, await self._begin(line, grant, welcome))
            outcome = "done"
        except Exception as error:
            outcome = await self._fail(line, error)
            if not isinstance(error, SandholdError):
                raise
        else:
            seconds = time.monotonic() - started
            metrics.TRANSFER_SECONDS.labels(grant.verb.value).observe(seconds)
            _log.info("the %s is done", grant.verb, extra={"bytes": size, "seconds": round(seconds, 3)})
        finally:
            metrics.TRANSFERS.labels(grant.verb.value, outcome).inc()

    async def _begin(self, line: Line, grant: Grant, welcome: Message) -> Generation | None:
        """Let the keeper begin, when it is known what an archive follows; one that fails is told so afterwards."""
        try:
            begun_after = await self._beginnings.of(grant) if grant.verb is Verb.ARCHIVE else None
        except SandholdError:
            await line.say(welcome)
            raise
        await line.say(welcome)
        return begun_after

    async def _within_its_time(self, line: Line, grant: Grant, begun_after: Generation | None) -> int:
        seconds = self._limits.seconds_for_any_transfer + grant.max_bytes / self._limits.bytes_a_second
        try:
            async with asyncio.timeout(seconds):
                if begun_after is None:
                    return await self._restore(line, grant)
                return await self._archive(line, grant, begun_after)
        except TimeoutError as error:
            raise ProducerError(f"the transfer was not done within {seconds:.0f} s") from error

    async def _archive(self, line: Line, grant: Grant, begun_after: Generation) -> int:
        async with self._signs_of_life(line), self._turn(self._limits.turn_seconds):
            store = await self._threads.run(self._stores.get, grant.store, grant.installation)
            summary = await ArchiveReceiver(line, grant, store, self._threads).receive(begun_after)
        if not summary.header.final:
            self._prune_after(store, summary.header)
        sequence = summary.header.generation.sequence
        _log.info("stored as %d-%d", grant.epoch, sequence, extra={"sequence": sequence, "final": grant.final})
        await line.say({"type": "stored", "key": summary.key, "sequence": sequence})
        return summary.header.content_bytes

    def _prune_after(self, store: OpenStore, stored: Header) -> None:
        """Prune apart from this connection: what becomes of it is not the archive's business, nor the other way."""
        if stored.slot in self._to_prune:
            return  # the one that waits looks at what is there when its turn comes
        if len(self._to_prune) >= self._limits.prunings_waiting:
            metrics.PRUNE_FAILURES.inc()
            return
        self._to_prune.add(stored.slot)
        self._threads.clean_up(self._prune(store, stored))

    async def _prune(self, store: OpenStore, stored: Header) -> None:
        async with self._prunings:
            self._to_prune.discard(stored.slot)
            pruned = await self._threads.run(prune, store.catalogue(stored.slot), stored)
        metrics.PRUNED_CHECKPOINTS.inc(pruned.manifests)
        metrics.PRUNE_FAILURES.inc(pruned.failures)

    async def _restore(self, line: Line, grant: Grant) -> int:
        async with self._turn(self._limits.restore_turn_seconds):
            store = await self._threads.run(self._stores.get, grant.store, grant.installation)
            size = await ArchiveSender(line, grant, store, self._threads).send()
        # The keeper hangs up when it has read the end.
        await line.linger(self._limits.linger_seconds)
        return size

    async def _fail(self, line: Line, error: Exception) -> str:
        """Tell the keeper, if it is still there; the code that it is told."""
        outcome = outcome_of(error)
        _log.warning("it failed: %s", outcome.message, extra={"code": outcome.code})
        with suppress(PeerGoneError):
            await line.say({"type": "failed", **outcome.as_error()}, self._limits.linger_seconds)
            await line.linger(self._limits.linger_seconds)
        return outcome.code

    @asynccontextmanager
    async def _turn(self, seconds: float) -> AsyncIterator[None]:
        """One of the places for transfers."""
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._limits.transfers} transfers run on this mover already; scale the mover out"
            ) from error
        try:
            yield
        finally:
            self._turns.release()

    @asynccontextmanager
    async def _signs_of_life(self, line: Line) -> AsyncIterator[None]:
        """Tell an archiving keeper every few seconds that we are at it, whatever we wait for."""
        telling = asyncio.create_task(self._tell(line))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.wait([telling])

    async def _tell(self, line: Line) -> None:
        # A peer that is gone is noticed where it is read from.
        with suppress(PeerGoneError):
            while True:
                await asyncio.sleep(self._limits.wait_every_seconds)
                await line.say({"type": "wait"})
