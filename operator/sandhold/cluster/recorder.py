"""Kubernetes Events: what people see in `kubectl describe`. Few per object, and never the same twice soon.

An Event that cannot be written is logged and counted, and never fails a pass: nothing depends on it.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sandhold import metrics
from sandhold.cluster.answers import NamespaceEndingError
from sandhold.cluster.door import Door
from sandhold.cluster.memory import Recent
from sandhold.desired.plan import Event
from sandhold.desired.world import KubeObject
from sandhold.errors import SandholdError

REPEAT_SECONDS = 600.0
BURST = 20.0
REFILL_SECONDS = 60.0
LONGEST_NOTE = 1024
"""Bytes, as the API server counts."""
CONTROLLER = "sandhold.dev/operator"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    since: float


class Recorder:
    """Writes the Events of plans."""

    def __init__(self, door: Door, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._door = door
        self._instance = instance
        self._clock = clock
        self._said: Recent[tuple[str, Event], float] = Recent()
        self._buckets: Recent[str, _Bucket] = Recent()

    async def record(self, subject: KubeObject, events: Iterable[Event], now: datetime) -> None:
        """Write what was not said of this object lately, as far as its bucket reaches."""
        uid = subject["metadata"]["uid"]
        for event in events:
            said = self._said.get((uid, event))
            if said is not None and self._clock() - said < REPEAT_SECONDS:
                metrics.EVENTS.labels("repeated").inc()
            elif not self._take_token(uid):
                metrics.EVENTS.labels("dropped").inc()
            else:
                await self._write(subject, event, now)

    async def _write(self, subject: KubeObject, event: Event, now: datetime) -> None:
        uid = subject["metadata"]["uid"]
        try:
            await self._door.create(event_document(subject, event, now, self._instance))
        except NamespaceEndingError:
            metrics.EVENTS.labels("too_late").inc()
        except SandholdError as error:
            metrics.EVENTS.labels("failed").inc()
            _log.warning("an Event could not be written", extra={"reason": event.reason, "error": str(error)})
        else:
            self._said.put((uid, event), self._clock())
            metrics.EVENTS.labels("written").inc()

    def _take_token(self, uid: str) -> bool:
        now = self._clock()
        bucket = self._buckets.get(uid) or _Bucket(BURST, now)
        tokens = min(BURST, bucket.tokens + (now - bucket.since) / REFILL_SECONDS)
        self._buckets.put(uid, _Bucket(max(0.0, tokens - 1), now))
        return tokens >= 1


def event_document(subject: KubeObject, event: Event, now: datetime, instance: str) -> KubeObject:
    """An Event as `events.k8s.io/v1` wants it. Its name is unique as the moment is."""
    metadata = subject["metadata"]
    moment = now.astimezone(UTC)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "namespace": metadata.get("namespace") or "default",
            "name": f"{metadata['name'][:200].rstrip('-.')}.{time.time_ns():x}",
        },
        "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "reason": event.reason,
        "type": event.type,
        "note": event.message.encode(errors="replace")[:LONGEST_NOTE].decode(errors="ignore"),
        "regarding": {
            "apiVersion": subject["apiVersion"],
            "kind": subject["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
    }
