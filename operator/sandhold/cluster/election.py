"""One active operator: a Lease that is taken, renewed, and given back at the end.

A holder that could not renew for two thirds of the Lease's time must stop at once (`LeaseLostError`), before anybody
else may take over. Others judge expiry by how long *they* saw no renewal, never by comparing clocks. A Lease is created
by POST and changed by PUT with uid and resourceVersion, since a PUT with an old version onto an absent Lease makes one.
"""

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sandhold import names
from sandhold.cluster.door import Door
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject
from sandhold.errors import ConflictError, NotFoundError, SandholdError
from sandhold.heartbeats import Heartbeats

TURN_SECONDS = 60.0
"""One look at the Lease ends by itself sooner than this, whatever the API server does."""
_log = logging.getLogger(__name__)


class LeaseLostError(SandholdError):
    """Somebody else may be active by now: stop without another write."""


class Election:
    """One candidate. `acquire` waits, `hold` renews until it fails, `release` lets the next one in at once."""

    def __init__(  # noqa: PLR0913 - who runs for what, by which clock, and who hears of it
        self,
        door: Door,
        namespace: str,
        name: str,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._beat = (heartbeats or Heartbeats(monotonic)).loop("election", seconds + TURN_SECONDS)
        self._beat.rest()
        self._looked: float | None = None
        self._door = door
        self._reference = Reference("coordination.k8s.io/v1", "Lease", namespace, names.ELECTION_LEASE)
        self._seconds = seconds
        self._monotonic = monotonic
        # A container that was killed and started again in the same pod is another candidate.
        self.identity = f"{name}_{uuid.uuid4().hex[:10]}"
        self._held: KubeObject | None = None
        self._renewed = 0.0
        self._watched: tuple[str, float] = ("", 0.0)

    @property
    def is_held(self) -> bool:
        """Whether this candidate holds the Lease, as far as it knows."""
        return self._held is not None and self._monotonic() - self._renewed < self._deadline

    @property
    def is_able(self) -> bool:
        """Whether this candidate holds the Lease, or read it lately and so could take it when it is free."""
        looked = self._looked
        return self.is_held or (looked is not None and self._monotonic() - looked < self._seconds + TURN_SECONDS)

    @property
    def _deadline(self) -> float:
        return self._seconds * 2 / 3

    async def acquire(self) -> None:
        """Wait until this candidate holds the Lease."""
        while True:
            self._beat()
            try:
                if await self.try_acquire():
                    _log.info("the election Lease is ours", extra={"identity": self.identity})
                    return
            except SandholdError as error:
                _log.warning("the election Lease could not be read or taken", extra={"error": str(error)})
            await asyncio.sleep(min(1.0, self._seconds / 5) * random.uniform(0.8, 1.2))  # noqa: S311 - jitter

    async def try_acquire(self) -> bool:
        """Look once, and take the Lease if it is free, released, or was not renewed for its whole time."""
        started = self._monotonic()
        try:
            lease = await self._door.get(self._reference)
        except NotFoundError:
            return await self._take(None, started)
        self._looked = started
        if self._is_free(lease):
            return await self._take(lease, started)
        return False

    async def hold(self) -> None:
        """Renew until cancelled; raises LeaseLostError when it is lost."""
        while True:
            self._beat()
            await asyncio.sleep(self._seconds / 5)
            await self._renew_once()

    async def release(self) -> None:
        """Give the Lease back, if it is held: the next candidate need not wait for its end."""
        held, self._held = self._held, None
        if held is None:
            return
        spec = {**held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._door.replace({**held, "spec": spec})
        except SandholdError as error:
            _log.warning("the election Lease was not released", extra={"error": str(error)})

    async def _renew_once(self) -> None:
        started = self._monotonic()
        if self._held is None or started - self._renewed >= self._deadline:
            raise LeaseLostError(f"the election Lease was not renewed for {self._deadline:.0f} s")
        spec = {**self._held["spec"], "renewTime": _micro_time()}
        try:
            async with asyncio.timeout(self._deadline - (started - self._renewed)):
                self._held = await self._door.replace({**self._held, "spec": spec})
            self._renewed = started
        except ConflictError as error:
            await self._look_again(error)
        except (SandholdError, TimeoutError) as error:
            _log.warning("the election Lease was not renewed", extra={"error": str(error)})

    async def _look_again(self, conflict: ConflictError) -> None:
        """A write of ours whose answer was lost also conflicts with the next one."""
        try:
            found = await self._door.get(self._reference)
        except NotFoundError as error:
            raise LeaseLostError("the election Lease was deleted") from error
        except SandholdError as error:
            _log.warning("the election Lease could not be read", extra={"error": str(error)})
            return
        if found["spec"].get("holderIdentity") != self.identity:
            raise LeaseLostError(f"the election Lease is held by {found['spec'].get('holderIdentity')}") from conflict
        self._held = found

    async def _take(self, lease: KubeObject | None, started: float) -> bool:
        now = _micro_time()
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": _transitions(lease) + 1,
        }
        try:
            if lease is None:
                self._held = await self._door.create({**_new_lease(self._reference), "spec": spec})
            else:
                self._held = await self._door.replace({**lease, "spec": spec})
        except (ConflictError, NotFoundError):
            return False
        self._renewed = started
        return True

    def _is_free(self, lease: KubeObject) -> bool:
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity"):
            return True
        version, since = self._watched
        if lease["metadata"]["resourceVersion"] != version:
            self._watched = (lease["metadata"]["resourceVersion"], self._monotonic())
            return False
        # The holder's own duration counts: another version of the operator may use another one.
        return self._monotonic() - since >= float(spec.get("leaseDurationSeconds") or self._seconds)


def _new_lease(reference: Reference) -> Mapping[str, Any]:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "metadata": {
            "namespace": reference.namespace,
            "name": reference.name,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
    }


def _transitions(lease: KubeObject | None) -> int:
    return int(((lease or {}).get("spec") or {}).get("leaseTransitions") or 0) if lease else -1


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
