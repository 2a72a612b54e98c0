"""Orders to keepers and fences: signed here, and not repeated within moments while nothing changed.

A busy session is reconciled many times a second; its keeper shall hear each order once. An order is repeated when the
keeper's report has changed since (it restarted, or it did something), or after a few seconds in case it was lost.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from sandhold import metrics
from sandhold.cluster.door import Movers
from sandhold.cluster.history import Histories
from sandhold.cluster.memory import Memory, Recent
from sandhold.desired.plan import Fence, Order
from sandhold.desired.world import Keeper
from sandhold.errors import ConflictError, InvalidError, SandholdError, UnavailableError
from sandhold.mover.grant import Grant, sign_grant
from sandhold.names import short_hash
from sandhold.reasons import RefusalCode

REPEAT_SECONDS = 5.0
SHORTEST_WAIT = 0.05


@dataclass(frozen=True, slots=True)
class _Sent:
    keeper: Keeper | None
    at: float


class Orders:
    """Sends the calls of plans to the movers."""

    def __init__(
        self,
        movers: Movers,
        histories: Histories,
        memory: Memory,
        grant_key: Ed25519PrivateKey,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._movers = movers
        self._histories = histories
        self._memory = memory
        self._grant_key = grant_key
        self._clock = clock
        self._sent: Recent[tuple[str, str], _Sent] = Recent()

    async def order(self, order: Order) -> float | None:
        """Send an order; None when it was sent, else the seconds after which it may be sent again."""
        key = (order.pod_uid, _content(order))
        keeper = self._movers.keepers().get(order.pod_uid)
        sent = self._sent.get(key)
        age = self._clock() - sent.at if sent is not None else REPEAT_SECONDS
        if sent is not None and sent.keeper == keeper and age < REPEAT_SECONDS:
            metrics.ORDERS.labels(order.verb, "repeated").inc()
            # Never a moment that is over before it was waited for: rounding would make passes of it.
            return max(REPEAT_SECONDS - age, SHORTEST_WAIT)
        document = {"verb": order.verb, **order.arguments}
        if order.grant is not None:
            document["grant"] = self._signed(order)
        try:
            await self._movers.order(order.pod_uid, document)
        except SandholdError:
            metrics.ORDERS.labels(order.verb, "failed").inc()
            raise
        self._sent.put(key, _Sent(keeper, self._clock()))
        metrics.ORDERS.labels(order.verb, "sent").inc()
        return None

    async def fence(self, fence: Fence, session_uid: str) -> None:
        """Have the fence in the store, or end the pass: no gate opens without it."""
        if self._memory.fenced.get(session_uid) == fence.epoch:
            return
        trouble = await self._movers.fence(fence)
        if trouble is None:
            self._memory.fenced.put(session_uid, fence.epoch)
            return
        self._histories.forget(fence.store, fence.slot)
        message = f"fence of slot {fence.slot}, epoch {fence.epoch}: {trouble.message}"
        if trouble.code == RefusalCode.STALE_GENERATION:
            raise ConflictError(message)
        raise UnavailableError(message)

    def _signed(self, order: Order) -> str:
        try:
            return sign_grant(Grant.model_validate(order.grant), self._grant_key)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in fault["loc"])
            raise InvalidError(f"grant of the order {order.verb}: {where}: {fault['msg']}") from error


def _content(order: Order) -> str:
    """What makes two orders the same: all but a grant's expiry, which every pass sets anew."""
    lasting: list[Mapping[str, Any]] = [
        {key: value for key, value in part.items() if key != "expires"} for part in (order.arguments, order.grant or {})
    ]
    return short_hash(order.verb, json.dumps(lasting, sort_keys=True, default=str), length=32)
