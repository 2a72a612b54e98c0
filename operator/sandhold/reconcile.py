"""One pass over one object: observe, decide, carry out; one log line and one timing. Nothing is decided here."""

import logging
import time
from collections.abc import Callable

from sandhold import metrics
from sandhold.cluster.apply import Applier, Outcome
from sandhold.cluster.kinds import SESSION
from sandhold.cluster.observe import Observer
from sandhold.desired.plan import Plan
from sandhold.desired.world import SandboxWorld, SessionWorld
from sandhold.workqueue import Key

_log = logging.getLogger(__name__)


class Reconciler:
    """Makes passes. The two plan functions are the pure halves of it."""

    def __init__(
        self,
        observer: Observer,
        applier: Applier,
        plan_session: Callable[[SessionWorld], Plan],
        plan_sandbox: Callable[[SandboxWorld], Plan],
    ) -> None:
        self._observer = observer
        self._applier = applier
        self._plan_session = plan_session
        self._plan_sandbox = plan_sandbox

    async def reconcile(self, key: Key) -> Outcome:
        """Make one pass; what it raises is one of `errors.py`."""
        started = time.monotonic()
        if key.kind == SESSION:
            session = await self._observer.session(key.namespace, key.name)
            if session is None:
                return Outcome()
            subject, plan, now = session.subject, self._plan_session(session.world), session.world.now
        else:
            sandbox = await self._observer.sandbox(key.namespace, key.name)
            if sandbox is None:
                return Outcome()
            subject, plan, now = sandbox.subject, self._plan_sandbox(sandbox.world), sandbox.world.now
        outcome = await self._applier.apply(subject, plan, now)
        if outcome.seen_to_post_ms is not None:
            metrics.SEEN_TO_POST_SECONDS.observe(outcome.seen_to_post_ms / 1000)
        _log.log(
            logging.INFO if outcome.again or outcome.calls else logging.DEBUG,
            "pass",
            extra=_said(key, subject["metadata"].get("generation"), plan, outcome, time.monotonic() - started),
        )
        return outcome


def _said(key: Key, generation: int | None, plan: Plan, outcome: Outcome, seconds: float) -> dict[str, object]:
    said = {
        "kind": key.kind,
        "namespace": key.namespace,
        "object": key.name,
        "generation": generation,
        "applied": outcome.applied,
        "deleted": outcome.deleted,
        "calls": outcome.calls,
        "wrote_status": outcome.wrote_status,
        "reason": _reason(plan),
        "wake_after": outcome.wake_after,
        "ms": round(seconds * 1000, 2),
        "seen_to_post_ms": outcome.seen_to_post_ms,
    }
    return {name: value for name, value in said.items() if value is not None}


def _reason(plan: Plan) -> str | None:
    """The reason of the condition Ready in the new status: what the pass came to, in one word."""
    conditions = (plan.status or {}).get("conditions") or ()
    return next((each.get("reason") for each in conditions if each.get("type") == "Ready"), None)
