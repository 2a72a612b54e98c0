"""The small world with an API server that refuses reads as well as writes, by number, as a test says.

Reads have numbers of their own, so that a test of writes need not know how often the operator looks.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sandhold.desired.plan import Reference
from sandhold.errors import SandholdError
from testkit.fake_cluster import FakeCluster
from testkit.faults import Faults
from testkit.small_world import SmallWorld, WatchPolicy

LIST_AGAIN_SECONDS = 60
"""After a list that failed the operator lists again so soon (`handlers/relist.py`)."""


class RefusingDoor(FakeCluster):
    """The same cluster, whose reads have numbers and faults too."""

    def __init__(self, cluster: FakeCluster, reads: Faults) -> None:
        self.objects, self.faults, self._owned = cluster.objects, cluster.faults, cluster._owned
        self.reads = reads

    async def get(self, reference: Reference) -> Mapping[str, Any]:
        """Read one object."""
        self.reads.before(f"get {reference.kind} {reference.namespace}/{reference.name}")
        return await super().get(reference)

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Read all of a kind."""
        self.reads.before(f"list {kind}")
        return await super().list(api_version, kind, namespace, selector)


class RefusingWorld(SmallWorld):
    """With faults of reads; a first list that fails is begun again, a later one comes again after a while."""

    def __init__(
        self, writes: Faults | None = None, reads: Faults | None = None, watch: WatchPolicy | None = None
    ) -> None:
        super().__init__(writes, watch)
        self.reads = reads or Faults()

    def door(self) -> FakeCluster:
        """What the operator sees of the cluster."""
        return RefusingDoor(self.cluster, self.reads)

    async def _start_operator(self) -> None:
        try:
            await super()._start_operator()
        except SandholdError:
            self._kill()

    async def _relist(self) -> None:
        try:
            await super()._relist()
        except SandholdError:
            self._relist_at = self.clock() + timedelta(seconds=LIST_AGAIN_SECONDS)
