"""What an operator may ask for: pass an order on, tell the head of a slot, fence it."""

from collections.abc import Awaitable, Callable

from sandhold.mover.keepers import Keepers
from sandhold.mover.messages import FenceRequest, HeadRequest, OrderRequest, parse
from sandhold.mover.stores import Stores
from sandhold.mover.threads import Threads
from sandhold.mover.wire import FrameError, Message
from sandhold.snapshots.catalogue import Catalogue
from sandhold.snapshots.manifest import Generation
from sandhold.snapshots.summary import Summary

_Answer = Callable[[Message], Awaitable[Message]]


class Requests:
    """Answers requests. Errors are the caller's to tell."""

    def __init__(self, keepers: Keepers, stores: Stores, threads: Threads) -> None:
        self._keepers = keepers
        self._stores = stores
        self._threads = threads
        self._verbs: dict[str, _Answer] = {"order": self._order, "head": self._head, "fence": self._fence}

    async def answer(self, message: Message) -> Message:
        """The result of one request."""
        if not isinstance(message.get("id"), int):
            raise FrameError("a request has a number as its id")
        verb = self._verbs.get(str(message.get("verb")))
        if verb is None:
            raise FrameError("a request's verb is order, head or fence")
        return await verb(message)

    async def _order(self, message: Message) -> Message:
        request = parse(OrderRequest, message)
        await self._keepers.order(request.pod_uid, request.order)
        return {}

    async def _head(self, message: Message) -> Message:
        request = parse(HeadRequest, message)
        head, content = await self._threads.run(lambda: self._catalogue(request.store, request.slot).head())
        return {"head": _as_json(head), "content": _as_json(content)}

    async def _fence(self, message: Message) -> Message:
        request = parse(FenceRequest, message)
        parent = None if request.parent is None else Generation(request.parent.epoch, request.parent.sequence)
        head = await self._threads.run(
            lambda: self._catalogue(request.store, request.slot).fence(request.epoch, parent, request.pod_uid)
        )
        return {"head": _as_json(head)}

    def _catalogue(self, store: str, slot: str) -> Catalogue:
        return self._stores.get(store).catalogue(slot)


def _as_json(summary: Summary | None) -> Message | None:
    return None if summary is None else summary.as_json()
