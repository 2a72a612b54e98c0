"""Gauges that are worked out when somebody asks for the metrics, from memory: no request, a few milliseconds.

Sessions by phase and ages are not kept up to date with every event: at ten thousand sessions it is cheaper to count
them once a scrape.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol, get_args

from sandhold import __version__, metrics
from sandhold.api.session import SessionPhase
from sandhold.cluster.cache import Cache
from sandhold.cluster.kinds import SANDBOX, SESSION, SNAPSHOT
from sandhold.desired.world import KubeObject
from sandhold.heartbeats import Heartbeats
from sandhold.workqueue import WorkQueue

PHASES = (*get_args(SessionPhase), "None")


class Connections(Protocol):
    """What the movers' connections say of themselves."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """`movers` and `keepers`, each by state."""
        ...


class Gauges:
    """Everything that is only known when it is looked at."""

    def __init__(  # noqa: PLR0913 - everything that is looked at
        self,
        *,
        cache: Cache,
        queue: WorkQueue,
        connections: Connections,
        heartbeats: Heartbeats,
        silences: Callable[[], Mapping[str, float]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._connections = connections
        self._heartbeats = heartbeats
        self._silences = silences
        self._now = now
        metrics.BUILD.labels(__version__).set(1)

    def refresh(self) -> None:
        """Bring all of them up to date."""
        self._sessions()
        metrics.SANDBOXES.set(self._cache.count(SANDBOX))
        metrics.SNAPSHOTS.set(self._cache.count(SNAPSHOT))
        metrics.QUEUE_DEPTH.set(self._queue.depth)
        metrics.QUEUE_OLDEST.set(self._queue.oldest)
        metrics.QUEUE_DELAYED.set(self._queue.delayed)
        counts = self._connections.counts()
        for state, count in counts["movers"].items():
            metrics.MOVERS.labels(state).set(count)
        for state, count in counts["keepers"].items():
            metrics.KEEPERS.labels(state).set(count)
        for loop, age in self._heartbeats.ages().items():
            metrics.HEARTBEAT_AGE.labels(loop).set(age)
        for kind, silent in self._silences().items():
            metrics.WATCH_AGE.labels(kind).set(silent)
            if self._cache.is_listed(kind):
                metrics.LIST_AGE.labels(kind).set(self._cache.list_age(kind))

    def _sessions(self) -> None:
        phases: Counter[str] = Counter()
        oldest = ""
        for session in self._cache.all(SESSION):
            status = session.get("status") or {}
            phase = status.get("phase") or "None"
            phases[phase] += 1
            if phase == "Ready":
                # Moments as the API writes them: in one form and zone, so that their order is that of the texts.
                made = self._made_at(session)
                oldest = min(made, oldest) if made and oldest else made or oldest
        for phase in PHASES:
            metrics.SESSIONS.labels(phase).set(phases[phase])
        metrics.OLDEST_RECOVERY_POINT.set(max(0.0, self._now() - _seconds(oldest)) if oldest else 0)

    def _made_at(self, session: KubeObject) -> str:
        """When the archive that the session would lose least with was made; empty without one."""
        name = (session["status"].get("snapshot") or {}).get("name")
        found = self._cache.get(SNAPSHOT, session["metadata"].get("namespace", ""), name) if name else None
        made = ((found or {}).get("status") or {}).get("createdAt")
        return made if isinstance(made, str) and made.endswith("Z") else ""


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0  # no operator writes such a status: an age of decades is what somebody should look at
