"""One pass over one object: observe, decide, carry out; one log line and one timing. Nothing is decided here."""

import logging
import time
from collections.abc import Callable

from sandhold import metrics
from sandhold.cluster.apply import Applier, Outcome
from sandhold.cluster.kinds import SESSION
from sandhold.cluster.observe import Observer
from sandhold.desired.plan import Plan
from sandhold.desired.world import KubeObject, SandboxWorld, SessionWorld
from sandhold.measuring import Measured
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._applier = applier
        self._plan_session = plan_session
        self._plan_sandbox = plan_sandbox
        self._measured = Measured(clock)

    async def reconcile(self, key: Key) -> Outcome:
        """Make one pass; what it raises is one of `errors.py`."""
        began = self._clock()
        if key.kind == SESSION:
            return await self._session(key, began)
        return await self._sandbox(key, began)

    async def _session(self, key: Key, began: float) -> Outcome:
        view = await self._observer.session(key.namespace, key.name)
        if view is None:
            return Outcome()
        plan = self._plan_session(view.world)
        outcome = await self._applier.apply(view.subject, plan, view.world.now)
        self._measured.session(view.world, plan, outcome, began)
        if outcome.seen_to_post_ms is not None:
            metrics.SEEN_TO_POST_SECONDS.observe(outcome.seen_to_post_ms / 1000)
        _say(view.subject, plan, outcome, self._clock() - began)
        return outcome

    async def _sandbox(self, key: Key, began: float) -> Outcome:
        view = await self._observer.sandbox(key.namespace, key.name)
        if view is None:
            return Outcome()
        plan = self._plan_sandbox(view.world)
        outcome = await self._applier.apply(view.subject, plan, view.world.now)
        self._measured.sandbox(view.world, plan, outcome)
        _say(view.subject, plan, outcome, self._clock() - began)
        return outcome


def _say(subject: KubeObject, plan: Plan, outcome: Outcome, seconds: float) -> None:
    """One line a pass; one that came to nothing new is of interest to nobody."""
    level = logging.INFO if outcome.again or outcome.calls else logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    _log.log(level, "pass", extra=_said(subject, plan, outcome, seconds))


def _said(subject: KubeObject, plan: Plan, outcome: Outcome, seconds: float) -> dict[str, object]:
    said = {
        "reason": _reason(plan),
        "phase": (plan.status or {}).get("phase"),
        "generation": subject["metadata"].get("generation"),
        "applied": outcome.applied,
        "deleted": outcome.deleted,
        "calls": outcome.calls,
        "wrote_status": outcome.wrote_status,
        "wake_after": outcome.wake_after,
        "ms": round(seconds * 1000, 2),
        "seen_to_post_ms": outcome.seen_to_post_ms,
    }
    return {name: value for name, value in said.items() if value is not None}


def _reason(plan: Plan) -> str | None:
    """The reason of the condition Ready in the new status: what the pass came to, in one word."""
    conditions = (plan.status or {}).get("conditions") or ()
    return next((each.get("reason") for each in conditions if each.get("type") == "Ready"), None)
