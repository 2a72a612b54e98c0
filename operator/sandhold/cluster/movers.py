"""All movers behind one face: one link each, their keepers merged, questions put to any of them that is there.

Any mover serves any keeper and any question about the store, so a question that one mover leaves unanswered goes to one
other. An order goes to the mover that holds the keeper. Nothing here decides; nothing is remembered that a mover would
not tell again, but for keepers that fell silent, which are kept for a while as `connected=False`.
"""

import asyncio
import itertools
import logging
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sandhold.cluster import reports
from sandhold.cluster.mover_link import MoverLink, RequestRefusedError, Times
from sandhold.cluster.pace import Pace
from sandhold.desired.plan import Fence
from sandhold.desired.world import Keeper, SlotHistory, StoreTrouble, Unknown
from sandhold.errors import UnavailableError
from sandhold.heartbeats import Heartbeats

_log = logging.getLogger(__name__)

MOST_MOVERS = 64
MOST_SILENT = 10_000
SILENT_SECONDS = 900.0
"""How long a keeper that fell silent is still shown with its last report."""
QUESTION_SECONDS = 20.0
MATCH_SECONDS = 60.0
"""Links that are given up end well within this."""
ORDER_SECONDS = 5.0


class MoverConnections:
    """Implements `Movers`. `run` keeps the links up; `set_endpoints` says which there are to be."""

    def __init__(  # noqa: PLR0913 - what a test sets, beside the certificates
        self,
        tls: Callable[[], ssl.SSLContext],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        times: Times | None = None,
        silent_seconds: float = SILENT_SECONDS,
        question_seconds: float = QUESTION_SECONDS,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeats = heartbeats or Heartbeats()
        self._tls = tls
        self._clock = clock
        self._times = times or Times()
        self._silent_seconds = silent_seconds
        self._question_seconds = question_seconds
        self._wanted: frozenset[str] = frozenset()
        self._wanted_changed = asyncio.Event()
        self._links: dict[str, tuple[MoverLink, asyncio.Task[None]]] = {}
        self._holders: dict[str, dict[str, Keeper]] = {}
        self._merged: dict[str, Keeper] = {}
        self._silent: dict[str, float] = {}
        self._forget_timer: asyncio.TimerHandle | None = None
        self._callbacks: list[Callable[[str], None]] = []
        self._pace = Pace(time.monotonic)
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._turn = itertools.count()

    def set_endpoints(self, addresses: Iterable[str]) -> None:
        """Which movers there are now, as `host:port` of their operator port."""
        wanted = sorted(set(addresses))
        if len(wanted) > MOST_MOVERS:
            _log.warning("%d movers are announced; connecting to the first %d", len(wanted), MOST_MOVERS)
        self._wanted = frozenset(wanted[:MOST_MOVERS])
        self._wanted_changed.set()

    async def run(self) -> None:
        """Keep one link to each endpoint until cancelled; a defect in a link ends this too."""
        try:
            beat = self._heartbeats.loop("movers", MATCH_SECONDS)
            async with asyncio.TaskGroup() as group:
                while True:
                    beat.rest()
                    await self._wanted_changed.wait()
                    self._wanted_changed.clear()
                    beat()
                    await self._match_links(group)
        finally:
            self._links.clear()
            for timer in (self._forget_timer, *self._delayed.values()):
                if timer is not None:
                    timer.cancel()
            self._delayed.clear()
            self._forget_timer = None

    async def _match_links(self, group: asyncio.TaskGroup) -> None:
        gone = [address for address in self._links if address not in self._wanted]
        tasks = []
        for address in gone:
            _, task = self._links.pop(address)
            task.cancel()
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks)
        for address in sorted(self._wanted - self._links.keys()):
            link = MoverLink(address, self._tls, self, self._times, self._heartbeats)
            self._links[address] = (link, group.create_task(link.run(), name=f"mover {address}"))

    @property
    def complete(self) -> bool:
        """Whether every mover that is announced has told of all its keepers."""
        return bool(self._wanted) and all(
            address in self._links and self._links[address][0].synced for address in self._wanted
        )

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many movers and keepers there are, by what they are like: for metrics."""
        links = [link for link, _ in self._links.values()]
        return {
            "movers": {
                "known": len(self._wanted),
                "connected": sum(link.live for link in links),
                "synced": sum(link.synced for link in links),
            },
            "keepers": {"connected": len(self._holders), "silent": len(self._silent)},
        }

    def keepers(self) -> Mapping[str, Keeper]:
        """Every keeper that a connected mover reported, and those that fell silent lately."""
        return MappingProxyType(self._merged)

    def subscribe(self, callback: Callable[[str], None]) -> None:
        """Call back with the pod UID whenever what is known of its keeper changes."""
        self._callbacks.append(callback)

    async def history(self, store: str, slot: str) -> SlotHistory | StoreTrouble | Unknown:
        """What the store holds of a slot."""
        try:
            result = await self._ask_any("head", {"store": store, "slot": slot})
            return reports.slot_history(result)
        except RequestRefusedError as error:
            return _trouble(error)
        except UnavailableError:
            return Unknown("no mover answered what the store holds")
        except reports.MalformedError as error:
            return Unknown(f"a mover's answer about the store is not usable: {error}")

    async def fence(self, fence: Fence) -> StoreTrouble | None:
        """Write the fence manifest."""
        parent = None if fence.parent is None else {"epoch": fence.parent[0], "sequence": fence.parent[1]}
        arguments = {
            "store": fence.store,
            "slot": fence.slot,
            "epoch": fence.epoch,
            "parent": parent,
            "podUid": fence.pod_uid,
        }
        try:
            result = await self._ask_any("fence", arguments)
            head = reports.manifest(result.get("head"), "head")
        except RequestRefusedError as error:
            return _trouble(error)
        except reports.MalformedError as error:
            raise UnavailableError(f"a mover's answer to a fence is not usable: {error}") from error
        if head.epoch != fence.epoch:
            raise UnavailableError(f"a mover answered the fence of epoch {fence.epoch} with epoch {head.epoch}")
        return None

    async def order(self, pod_uid: str, order: Mapping[str, Any]) -> None:
        """Pass an order to the mover that holds this keeper, the last one that spoke of it first."""
        holders = [address for address in reversed(self._holders.get(pod_uid, {})) if address in self._links]
        if not holders:
            raise UnavailableError(f"no mover holds the keeper of pod {pod_uid}")
        failure: Exception | None = None
        for address in holders[:2]:
            link, _ = self._links[address]
            try:
                await link.request("order", {"podUid": pod_uid, "order": dict(order)}, ORDER_SECONDS)
            except (RequestRefusedError, UnavailableError) as error:
                failure = error
                continue
            return
        raise UnavailableError(f"the keeper of pod {pod_uid} could not be given `{order.get('verb')}`: {failure}")

    async def _ask_any(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        live = [link for link, _ in self._links.values() if link.live]
        if not live:
            raise UnavailableError("no mover is connected")
        first = next(self._turn) % len(live)
        try:
            return await live[first].request(verb, arguments, self._question_seconds)
        except UnavailableError:
            others = [link for link in (*live[first + 1 :], *live[:first]) if link.live]
            if not others:
                raise
            return await others[0].request(verb, arguments, self._question_seconds)

    def keeper_said(self, address: str, pod_uid: str, keeper: Keeper) -> None:
        """A link heard of a keeper: the last one that speaks of it is the one that holds it."""
        holders = self._holders.setdefault(pod_uid, {})
        holders.pop(address, None)
        now, shown = self._clock(), self._merged.get(pod_uid)
        since = shown.connected_since if shown is not None and shown.connected else None
        keeper = replace(keeper, reported_at=now, connected_since=since or now)
        holders[address] = keeper
        self._silent.pop(pod_uid, None)
        self._show(pod_uid, keeper)

    def keeper_left(self, address: str, pod_uid: str) -> None:
        """A link lost a keeper: another one may hold it, else it has fallen silent."""
        holders = self._holders.get(pod_uid, {})
        if holders.pop(address, None) is None:
            return
        if holders:
            self._show(pod_uid, next(reversed(holders.values())))
            return
        del self._holders[pod_uid]
        loop = asyncio.get_running_loop()
        self._silent[pod_uid] = loop.time() + self._silent_seconds
        while len(self._silent) > MOST_SILENT:
            self._forget(next(iter(self._silent)))
        if self._forget_timer is None:
            self._forget_timer = loop.call_later(self._silent_seconds, self._forget_due)
        if pod_uid in self._silent:
            self._show(pod_uid, replace(self._merged[pod_uid], connected=False, connected_since=None))

    def _forget_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._forget_timer = None
        # In the order in which they fell silent, which is the order in which they are due.
        for pod_uid, due in tuple(self._silent.items()):
            if due > loop.time():
                self._forget_timer = loop.call_later(due - loop.time(), self._forget_due)
                break
            self._forget(pod_uid)

    def _forget(self, pod_uid: str) -> None:
        del self._silent[pod_uid]
        del self._merged[pod_uid]
        self._pace.forget(pod_uid)
        self._call_back(pod_uid)

    def _show(self, pod_uid: str, keeper: Keeper) -> None:
        shown = self._merged.get(pod_uid)
        self._merged[pod_uid] = keeper
        if shown is None or (shown.connected, shown.report) != (keeper.connected, keeper.report):
            self._tell(pod_uid)

    def _tell(self, pod_uid: str) -> None:
        """Call back now, or once a little later when this pod will not be quiet."""
        if pod_uid in self._delayed:
            return
        wait = self._pace.wait(pod_uid)
        if wait == 0:
            self._call_back(pod_uid)
        else:
            self._delayed[pod_uid] = asyncio.get_running_loop().call_later(wait, self._tell_late, pod_uid)

    def _tell_late(self, pod_uid: str) -> None:
        del self._delayed[pod_uid]
        self._call_back(pod_uid)

    def _call_back(self, pod_uid: str) -> None:
        for callback in self._callbacks:
            callback(pod_uid)


def _trouble(error: RequestRefusedError) -> StoreTrouble:
    return StoreTrouble(error.code or "snapshot_store_unavailable", error.message, error.retryable)
