"""What runs inside the operator, and how it belongs together: if one loop fails, all end, and so does the process."""

import asyncio
import logging
from contextlib import suppress

from sandhold import metrics
from sandhold.backends.load import BackendsInForce
from sandhold.cluster.certificates import Authority
from sandhold.cluster.door import Door
from sandhold.cluster.election import Election
from sandhold.cluster.kinds import SANDBOX
from sandhold.cluster.movers import MoverConnections
from sandhold.cluster.pki import ensure_mover_tls
from sandhold.errors import SandholdError
from sandhold.handlers.assembly import Parts, utc_now
from sandhold.handlers.gauges import Gauges
from sandhold.handlers.pump import EventPump
from sandhold.handlers.question_door import question_door
from sandhold.handlers.questions import Questions
from sandhold.handlers.web import serving
from sandhold.probes import Health
from sandhold.settings import OperatorSettings

RELOAD_SECONDS = 5.0
FACTS_SECONDS = 30.0
MOVERS_SECONDS = 10.0
RELEASE_SECONDS = 2.0
RENEWAL_SECONDS = 3600.0
ENDING_SECONDS = 180.0
"""Whatever a loop does between two waits ends by itself sooner than this: its requests have their own limits."""
_log = logging.getLogger(__name__)


class Operator:
    """One operator process, running."""

    def __init__(  # noqa: PLR0913 - everything that runs
        self,
        *,
        door: Door,
        movers: MoverConnections,
        parts: Parts,
        pump: EventPump,
        settings: OperatorSettings,
        backends: BackendsInForce,
        authority: Authority,
        election: Election,
    ) -> None:
        self._heartbeats = parts.heartbeats
        self._door = door
        self._movers = movers
        self._parts = parts
        self._pump = pump
        self._settings = settings
        self._backends = backends
        self._authority = authority
        self._election = election
        kinds = [kind.resource.kind for kind in parts.kinds]
        self._health = Health(
            cache=parts.cache,
            queue=parts.queue,
            heartbeats=parts.heartbeats,
            kinds=kinds,
            list_seconds=settings.resync_seconds,
            is_able=lambda: election.is_able,
        )
        self._gauges = Gauges(
            cache=parts.cache,
            queue=parts.queue,
            connections=movers,
            heartbeats=parts.heartbeats,
            silences=parts.relister.silences,
        )
        self._facts: tuple[object, object] | None = None
        self._questions = Questions(parts, door, settings.namespace, leads=lambda: election.is_held)
        parts.router.on_addresses = self.compare_facts

    async def run(self) -> None:
        """Run everything until cancelled or until one of the loops fails."""
        settings = self._settings
        try:
            async with (
                serving(self._health, self._gauges.refresh, settings.health_port, settings.metrics_port),
                question_door(settings.questions_socket, self._questions.answer),
                asyncio.TaskGroup() as group,
            ):
                group.create_task(self._health.beat(), name="heartbeat")
                group.create_task(self._movers.run(), name="movers")
                await self._parts.relister.sync()
                await self._parts.facts.refresh()
                self.compare_facts()
                _log.info("caches filled", extra={"kinds": len(self._parts.kinds)})
                group.create_task(self._pump.run(self._parts.router), name="watches")
                group.create_task(self._parts.relister.run(), name="lists")
                group.create_task(self._follow_facts(), name="facts")
                group.create_task(self._follow_backends(), name="backends")
                group.create_task(self._lead(), name="leader")
        finally:
            self._parts.queue.close()

    def compare_facts(self) -> None:
        """Addresses may have changed: tell the links to movers, and wake all that use what changed."""
        self._movers.set_endpoints(self._parts.facts.mover_operators())
        now = self._parts.facts.current()
        facts = ((now.mover_address, now.mover_canary, now.api_server), now.node_addresses)
        if self._facts is not None and facts[0] != self._facts[0]:
            self._parts.router.wake_all()
        elif self._facts is not None and facts[1] != self._facts[1]:
            # Only walls name nodes, and a changed wall wakes its sessions.
            self._parts.router.wake_all(SANDBOX)
        self._facts = facts

    async def _lead(self) -> None:
        """Wait for the Lease, then make passes until it is lost; given back on every way out."""
        await self._election.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._election.hold(), name="lease")
                metrics.LEADER.set(1)
                group.create_task(self._renew_mover_tls(), name="mover certificate")
                await self._wait_for_movers()
                self._health.activate()
                group.create_task(self._parts.workers.run(self._settings.workers), name="workers")
                group.create_task(self._sweep(), name="sweep")
        finally:
            metrics.LEADER.set(0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._election.release(), RELEASE_SECONDS)

    async def _wait_for_movers(self) -> None:
        """Keepers that were not told of yet look silent; a mover that does not come must not hold everything up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MOVERS_SECONDS if self._parts.facts.mover_operators() else 0):
                while not self._movers.complete:  # noqa: ASYNC110 - a property of many links, no one event
                    await asyncio.sleep(0.05)

    async def _renew_mover_tls(self) -> None:
        """Have a mover certificate, and make it anew in time."""
        beat = self._heartbeats.loop("certificate", ENDING_SECONDS)
        while True:
            beat(ENDING_SECONDS)
            try:
                await ensure_mover_tls(self._door, self._settings.namespace, self._authority, utc_now())
                delay = RENEWAL_SECONDS
            except SandholdError as error:
                _log.error("the movers' certificate could not be ensured", extra={"error": str(error)})
                delay = FACTS_SECONDS
            beat(delay + ENDING_SECONDS)
            await asyncio.sleep(delay)

    async def _sweep(self) -> None:
        await self._parts.sweeper.run(self._heartbeats.loop("sweep", ENDING_SECONDS))

    async def _follow_facts(self) -> None:
        beat = self._heartbeats.loop("facts", FACTS_SECONDS + ENDING_SECONDS)
        while True:
            beat()
            await asyncio.sleep(FACTS_SECONDS)
            await self._parts.facts.refresh()
            self.compare_facts()

    async def _follow_backends(self) -> None:
        said: object = ()
        beat = self._heartbeats.loop("backends", RELOAD_SECONDS + ENDING_SECONDS)
        metrics.BACKENDS_LOADED.set_to_current_time()
        while True:
            beat()
            await asyncio.sleep(RELOAD_SECONDS)
            reload = await asyncio.to_thread(self._backends.reload)
            if reload.problems and reload.problems != said:
                problems = "; ".join(str(problem) for problem in reload.problems)
                _log.error("the new backends file is not in force", extra={"problems": problems})
            said = reload.problems
            metrics.BACKENDS_STALE.set(bool(reload.problems))
            if reload.changed:
                metrics.BACKENDS_LOADED.set_to_current_time()
                _log.info("the new backends file is in force")
                self._parts.router.wake_all()
