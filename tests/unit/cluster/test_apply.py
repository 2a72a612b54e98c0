"""What carrying out a plan leaves for the next world: the SandboxSnapshots that the API server does not write."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from sandhold.cluster.answers import QuotaError
from sandhold.cluster.apply import Applier
from sandhold.cluster.cache import Cache
from sandhold.cluster.memory import Memory
from sandhold.cluster.reading import INDICES
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.writes import Writes
from sandhold.desired import snapshot
from sandhold.desired.plan import Create, Plan, Reference, WriteStatus
from sandhold.desired.world import RefusedRecord
from sandhold.errors import ConflictError, ForbiddenError, InvalidError, SandholdError, UnavailableError
from testkit import worlds
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster

NAME = f"quill-{worlds.SLOT[:10]}-1"
SUBJECT = {"metadata": {"uid": worlds.SESSION_UID, "name": "quill", "namespace": worlds.NAMESPACE}}


def _no_orders() -> Any:
    """None of these plans gives an order."""
    return None


class Refusing(FakeCluster):
    """Says the same to every write of a SandboxSnapshot, or of its status alone."""

    answer: SandholdError | None = None
    refuses_creation = True

    async def create(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST."""
        if self.answer is not None and self.refuses_creation:
            raise self.answer
        return await super().create(document)

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> Mapping[str, Any]:
        """JSON patch."""
        if self.answer is not None:
            raise self.answer
        return await super().json_patch(reference, operations, subresource)


class Bench:
    """An applier on a cluster that refuses."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = Refusing(self.clock)
        self.cluster.add_namespace(worlds.NAMESPACE)
        self.memory, cache = Memory(), Cache(INDICES)
        writes = Writes(self.cluster, cache, self.memory, self.clock.monotonic)
        recorder = Recorder(self.cluster, "test", self.clock.monotonic)
        self.applier = Applier(cache, self.memory, writes, _no_orders(), recorder)

    async def write(self, *, sequence: int = 1) -> RefusedRecord | None:
        """Have the entry of epoch 1 written; what is noted afterwards."""
        archived = snapshot.Archived("demo", worlds.SLOT, "main", worlds.an_archive(1, sequence))
        writes = snapshot.snapshot_writes(worlds.a_session(), archived, self.clock())
        await self.applier.apply(SUBJECT, Plan(writes=writes), self.clock())
        return self.noted

    @property
    def noted(self) -> RefusedRecord | None:
        """What the next world holds."""
        return self.memory.unrecorded.get(worlds.SESSION_UID)


@pytest.mark.parametrize(
    "answer",
    [
        QuotaError("create SandboxSnapshot quill: exceeded quota: cards (HTTP 403)"),
        ForbiddenError("create SandboxSnapshot quill: forbidden (HTTP 403)"),
        InvalidError("create SandboxSnapshot quill: denied request (HTTP 422)"),
        UnavailableError("create SandboxSnapshot quill: failed calling webhook (HTTP 500)"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("refused", ["create", "status"])
async def test_what_the_api_server_says_is_noted_and_ends_the_pass(answer: SandholdError, refused: str) -> None:
    bench = Bench()
    bench.cluster.answer, bench.cluster.refuses_creation = answer, refused == "create"
    is_an_answer = not isinstance(answer, UnavailableError)
    first = bench.clock()
    with pytest.raises(type(answer)):
        await bench.write()
    why = f"SandboxSnapshot {NAME} was not written: {answer}"
    assert bench.noted == RefusedRecord(NAME, why, first, first, is_an_answer)
    bench.clock.move_to(first + timedelta(seconds=20))
    with pytest.raises(type(answer)):
        await bench.write()
    assert bench.noted == RefusedRecord(NAME, why, first, bench.clock(), is_an_answer)
    bench.cluster.answer = None
    assert await bench.write() is None
    bench.cluster.answer = answer
    with pytest.raises(type(answer)):
        await bench.write(sequence=2)
    assert bench.noted is not None
    assert bench.noted.since == bench.clock(), "a row of refusals ends with a success"


async def test_a_world_that_moved_on_is_no_refusal() -> None:
    bench = Bench()
    bench.cluster.answer = ConflictError("it changed meanwhile (HTTP 409)")
    with pytest.raises(ConflictError):
        await bench.write()
    assert bench.noted is None


async def test_refusals_of_other_kinds_are_none_of_a_snapshot() -> None:
    bench = Bench()
    bench.cluster.answer = InvalidError("no (HTTP 422)")
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": worlds.NAMESPACE}}
    with pytest.raises(InvalidError):
        await bench.applier.apply(SUBJECT, Plan(writes=(Create(document),)), bench.clock())
    assert bench.noted is None


async def test_a_long_answer_leaves_room_for_the_next_step() -> None:
    bench = Bench()
    bench.cluster.answer = InvalidError("x" * 5000)
    with pytest.raises(InvalidError):
        await bench.write()
    assert bench.noted is not None
    assert len(bench.noted.why) == 900


def test_the_writes_of_an_entry_end_with_its_status() -> None:
    """A success is noted with the last of them."""
    archived = snapshot.Archived("demo", worlds.SLOT, "main", worlds.an_archive())
    writes = snapshot.snapshot_writes(worlds.a_session(), archived, worlds.NOW)
    assert [type(write) for write in writes] == [Create, WriteStatus]
