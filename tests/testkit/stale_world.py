"""The small world behind an API server that lags: its lists tell what was a while ago, as a server does whose own watch
is behind. Reads of one object and everything that writes are current.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from testkit.fake_cluster import FakeCluster, selects
from testkit.object_store import Document
from testkit.small_world import SmallWorld, WatchPolicy

_Moment = tuple[datetime, str, dict[str, list[Document]]]


class StaleDoor(FakeCluster):
    """The same cluster, whose lists are as old as is said."""

    def __init__(self, cluster: FakeCluster, past: Callable[[], _Moment]) -> None:
        self.objects, self.faults, self._owned = cluster.objects, cluster.faults, cluster._owned
        self._past = past

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """All of a kind, as they were."""
        _, version, objects = self._past()
        found = [
            each
            for each in objects.get(kind, ())
            if each["apiVersion"] == api_version
            and namespace in (None, "", each["metadata"].get("namespace", ""))
            and selects(selector, each["metadata"].get("labels", {}))
        ]
        return found, version


class StaleWorld(SmallWorld):
    """Keeps what was, for as long as it is told."""

    def __init__(self, lag: float, watch: WatchPolicy | None = None) -> None:
        super().__init__(None, watch)
        self._lag = timedelta(seconds=lag)
        self._moments: deque[_Moment] = deque()
        self.stale_lists = 0
        self._remember("", {})
        self.cluster.objects.watch(self._remember)

    def door(self) -> FakeCluster:
        """What the operator sees of the cluster."""
        return StaleDoor(self.cluster, self._past)

    def _remember(self, _: str, __: Document) -> None:
        kinds: dict[str, list[Document]] = {}
        for each in self.cluster.objects.everything():
            kinds.setdefault(each["kind"], []).append(each)
        self._moments.append((self.clock(), self.cluster.objects.version, kinds))

    def _past(self) -> _Moment:
        """The newest moment that is as old as the lag, or the oldest there is."""
        until = self.clock() - self._lag
        while len(self._moments) > 1 and self._moments[1][0] <= until:
            self._moments.popleft()
        self.stale_lists += len(self._moments) > 1
        return self._moments[0]
