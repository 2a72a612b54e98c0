"""Carries out plans, in the order that `desired/plan.py` gives; the first failure ends the pass.

Every write is either idempotent by name, or tested against the object as it was observed; whatever the API server
answers goes into the cache at once, so that the next pass sees what this one did. A plan that wants what the world
already has makes no request. It decides nothing: what is in the plan is done, what is not in it is left alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sandhold.cluster.answers import QuotaError
from sandhold.cluster.cache import Cache
from sandhold.cluster.kinds import POD, SNAPSHOT, reference_to
from sandhold.cluster.memory import Memory
from sandhold.cluster.orders import Orders
from sandhold.cluster.reading import labels_of
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.writes import Writes
from sandhold.desired.plan import Apply, Create, Delete, Fence, Order, Plan, Reference, Write, WriteStatus
from sandhold.desired.world import KubeObject, RefusedRecord
from sandhold.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, SandholdError, UnavailableError
from sandhold.names import ANNOTATION_EPOCH, LABEL_SESSION_UID
from sandhold.reasons import Refusal, RefusalCode, refuse

LONGEST_REASON = 900
"""Of what the API server said, so that a condition has room for what can be done about it."""


@dataclass(slots=True)
class Outcome:
    """What carrying out a plan came to."""

    applied: int = 0
    deleted: int = 0
    calls: int = 0
    wrote_status: bool = False
    again: bool = False
    """Something changed that a further pass may build on at once."""
    wake_after: float | None = None
    seen_to_post_ms: float | None = None
    posted_at: float | None = None
    """When (monotonic) a pod was made."""

    def wake_within(self, seconds: float) -> None:
        """Look again after so long at the latest."""
        self.wake_after = seconds if self.wake_after is None else min(self.wake_after, seconds)


class Applier:
    """Plans to requests."""

    def __init__(  # noqa: PLR0913 - everything that can change something, and whether it may
        self,
        cache: Cache,
        memory: Memory,
        writes: Writes,
        orders: Orders,
        recorder: Recorder,
        *,
        leads: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._leads = leads
        self._cache = cache
        self._memory = memory
        self._writes = writes
        self._orders = orders
        self._recorder = recorder

    async def apply(self, subject: KubeObject, plan: Plan, now: datetime) -> Outcome:
        """Carry out a plan for the object that it was made for, as that object was observed."""
        outcome = Outcome(wake_after=plan.wake_after)
        self._insist()
        if plan.finalizer_add is not None:
            subject = await self._add_finalizer(subject, plan.finalizer_add, outcome)
        for write in plan.writes:
            self._insist()
            await self._noted(write, subject, now, outcome)
        for call in plan.calls:
            self._insist()
            await self._call(call, subject, outcome)
        self._insist()
        if plan.status is not None:
            patched = await self._writes.status(subject, plan.status)
            if patched is not None:
                subject, outcome.wrote_status, outcome.again = patched, True, True
        await self._recorder.record(subject, plan.events, now)
        if plan.finalizer_remove is not None:
            self._insist()
            await self._remove_finalizer(subject, plan.finalizer_remove, outcome)
        return outcome

    def _insist(self) -> None:
        """One who slept over his Lease changes nothing more, in the middle of a plan either: another one leads."""
        if not self._leads():
            raise UnavailableError("the election Lease is not held any more, so nothing is written")

    async def _noted(self, write: Write, subject: KubeObject, now: datetime, outcome: Outcome) -> None:
        """A write; what becomes of one of a SandboxSnapshot is noted for the session's next world."""
        record = _record_of(write)
        if record is None:
            await self._write(write, outcome)
            return
        session = subject["metadata"]["uid"]
        try:
            await self._write(write, outcome)
        except (InvalidError, ForbiddenError, UnavailableError) as error:
            before = self._memory.unrecorded.get(session)
            self._memory.unrecorded.put(session, _refused_record(record, error, before, now))
            raise
        if isinstance(write, WriteStatus):
            self._memory.unrecorded.pop(session)

    async def _write(self, write: Write, outcome: Outcome) -> None:
        match write:
            case Create(document):
                changed = await self._create(document, outcome)
                outcome.applied += changed
            case Apply(document):
                changed = await self._writes.apply(document)
                outcome.applied += changed
            case Delete():
                self._forget_pod(write)
                changed = await self._writes.delete(write)
                outcome.deleted += changed
            case WriteStatus():
                changed = await self._write_status(write)
                outcome.applied += changed
        outcome.again |= changed

    async def _create(self, document: KubeObject, outcome: Outcome) -> bool:
        """A create; that of a pod is timed, and its refusal is noted for the next world."""
        if document["kind"] != POD:
            return await self._writes.create(document)
        session = labels_of(document).get(LABEL_SESSION_UID, "")
        try:
            changed = await self._writes.create(document)
        except (InvalidError, ForbiddenError) as error:
            self._memory.refused.put(session, _refusal(document, error))
            raise
        self._memory.refused.pop(session)
        self._memory.posted.put(session, int(document["metadata"]["annotations"][ANNOTATION_EPOCH]))
        seen = self._memory.seen.pop(session)
        if changed:
            outcome.posted_at = self._clock()
        if changed and seen is not None:
            outcome.seen_to_post_ms = round((self._clock() - seen) * 1000, 2)
        return changed

    def _forget_pod(self, wanted: Delete) -> None:
        """A pod that we delete is not one that somebody took from us."""
        known = self._cache.find(wanted.reference) if wanted.reference.kind == POD else None
        if known is not None:
            self._memory.posted.pop(labels_of(known).get(LABEL_SESSION_UID, ""))

    async def _write_status(self, wanted: WriteStatus) -> bool:
        """The status of an object that this or an earlier pass made."""
        known = self._cache.find(wanted.reference)
        if known is None:
            raise ConflictError(f"{wanted.reference.kind} {wanted.reference.name} is not there yet")
        return await self._writes.status(known, wanted.status) is not None

    async def _call(self, call: Order | Fence, subject: KubeObject, outcome: Outcome) -> None:
        if isinstance(call, Fence):
            await self._orders.fence(call, subject["metadata"]["uid"])
            outcome.calls += 1
            return
        repeat_after = await self._orders.order(call)
        if repeat_after is None:
            outcome.calls += 1
        else:
            outcome.wake_within(repeat_after)

    async def _add_finalizer(self, subject: KubeObject, finalizer: str, outcome: Outcome) -> KubeObject:
        present = subject["metadata"].get("finalizers")
        if present and finalizer in present:
            return subject
        path, value = ("/metadata/finalizers/-", finalizer) if present else ("/metadata/finalizers", [finalizer])
        outcome.again = True
        return await self._writes.patch(subject, [{"op": "add", "path": path, "value": value}])

    async def _remove_finalizer(self, subject: KubeObject, finalizer: str, outcome: Outcome) -> None:
        present = list(subject["metadata"].get("finalizers") or ())
        if finalizer not in present:
            return
        path = f"/metadata/finalizers/{present.index(finalizer)}"
        operations = [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
        try:
            await self._writes.patch(subject, operations)
        except NotFoundError:
            self._cache.remove(subject)
        outcome.again = True


def _record_of(write: Write) -> Reference | None:
    """The SandboxSnapshot that is written, if it is one."""
    match write:
        case Create(document) if document["kind"] == SNAPSHOT:
            return reference_to(document)
        case WriteStatus(reference) if reference.kind == SNAPSHOT:
            return reference
    return None


def _refused_record(
    record: Reference, error: SandholdError, before: RefusedRecord | None, now: datetime
) -> RefusedRecord:
    since = before.since if before is not None and before.name == record.name else now
    why = f"SandboxSnapshot {record.name} was not written: {error}"[:LONGEST_REASON]
    return RefusedRecord(record.name, why, since, now, is_an_answer=not isinstance(error, UnavailableError))


def _refusal(pod: KubeObject, error: SandholdError) -> Refusal:
    """Without the request's number or the time, so that an unchanged refusal is written once."""
    code = RefusalCode.QUOTA_EXCEEDED if isinstance(error, QuotaError) else RefusalCode.SANDBOX_CREATE_FAILED
    return refuse(code, f"Pod {pod['metadata']['name']} was refused: {error}"[:1024])
