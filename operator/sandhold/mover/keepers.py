"""The keepers that are connected here and what they last said: the only thing that a mover keeps in memory.

It is a view, never a truth: a keeper says everything anew after each connect, and an operator gets all of it on each
connect. So a mover may be killed at any time, and there may be several.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from dataclasses import dataclass, field

from sandhold.errors import NotFoundError
from sandhold.mover import metrics
from sandhold.mover.identity import Identity
from sandhold.mover.line import Line
from sandhold.mover.wire import Message, PeerGoneError

_ORDER_SECONDS = 10.0

_log = logging.getLogger(__name__)


class KeeperAbsentError(NotFoundError):
    """That pod has no control connection to this mover."""


@dataclass(frozen=True, slots=True)
class KeeperState:
    """What an operator is told about one keeper."""

    identity: Identity
    connected: bool
    report: bytes | None
    """Its last report as JSON text: a tenth of what the same costs as objects, and most keepers are idle."""

    def as_message(self) -> Message:
        """As PROTOCOL.md section 9 spells it."""
        return {
            "type": "keeper",
            "podUid": self.identity.pod_uid,
            "podName": self.identity.pod_name,
            "namespace": self.identity.namespace,
            "connected": self.connected,
            "report": None if self.report is None else json.loads(self.report),
        }


@dataclass(eq=False, slots=True)
class Keeper:
    """A keeper's control connection."""

    identity: Identity
    line: Line
    report: bytes | None = None

    def state(self) -> KeeperState:
        """What to tell about it now."""
        return KeeperState(self.identity, connected=True, report=self.report)


@dataclass(eq=False, slots=True)
class Subscription:
    """What one operator has not been told yet: the newest state of each keeper, so it cannot grow without bound."""

    _news: "OrderedDict[str, KeeperState]" = field(default_factory=OrderedDict)
    _something: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, state: KeeperState) -> None:
        """There is news of a keeper; it replaces what is not told yet."""
        self._news[state.identity.pod_uid] = state
        self._something.set()

    async def take(self) -> list[KeeperState]:
        """All news, oldest first; waits until there is some."""
        await self._something.wait()
        return self.take_now()

    def take_now(self) -> list[KeeperState]:
        """All news there is, maybe none."""
        self._something.clear()
        news = list(self._news.values())
        self._news.clear()
        return news


class Keepers:
    """All keepers connected here."""

    def __init__(self) -> None:
        self._here: dict[str, Keeper] = {}
        self._subscriptions: set[Subscription] = set()
        metrics.KEEPERS.set_function(lambda: len(self._here))

    def attach(self, keeper: Keeper) -> None:
        """A keeper is connected; its earlier connection, if there is one, is dead or about to be."""
        earlier = self._here.get(keeper.identity.pod_uid)
        self._here[keeper.identity.pod_uid] = keeper
        if earlier is not None:
            _log.info("the keeper connected anew; its earlier connection ends")
            earlier.line.abort()
        self._tell(keeper.state())

    def detach(self, keeper: Keeper) -> None:
        """A connection ended; that matters only if no newer one has replaced it."""
        if self._here.get(keeper.identity.pod_uid) is keeper:
            del self._here[keeper.identity.pod_uid]
            self._tell(KeeperState(keeper.identity, connected=False, report=keeper.report))

    def update(self, keeper: Keeper, report: bytes) -> None:
        """A keeper has said how it is, as JSON text that was checked."""
        keeper.report = report
        if self._here.get(keeper.identity.pod_uid) is keeper:
            self._tell(keeper.state())

    async def order(self, pod_uid: str, order: Message) -> None:
        """Pass an order on. Success means that it is on its way, not that it was obeyed: reports say that."""
        keeper = self._here.get(pod_uid)
        if keeper is None:
            raise KeeperAbsentError(f"pod {pod_uid} has no control connection to this mover")
        try:
            await keeper.line.say({"type": "order", "order": order}, _ORDER_SECONDS)
        except PeerGoneError as error:
            keeper.line.abort()
            raise KeeperAbsentError(f"pod {pod_uid} does not take orders; it will connect anew") from error

    def subscribe(self) -> Subscription:
        """News from now on, beginning with everybody who is here."""
        subscription = Subscription()
        for keeper in self._here.values():
            subscription.put(keeper.state())
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more news for this one."""
        self._subscriptions.discard(subscription)

    def lines_silent_since(self, moment: float) -> list[Line]:
        """Connections that we have sent nothing on since then."""
        return [keeper.line for keeper in self._here.values() if keeper.line.last_sent <= moment]

    def _tell(self, state: KeeperState) -> None:
        for subscription in self._subscriptions:
            subscription.put(state)
