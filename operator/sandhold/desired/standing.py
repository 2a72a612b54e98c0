"""What the keeper of an open pod holds for the time when the operator is away: standing grants, and what to guard.

Level-triggered: what its report says it holds is compared with what it shall hold, and only a difference is ordered.
None of it is written to the API server. What the keeper does with it is operator/keeper/PROTOCOL.md 4.3 and 4.4.
"""

from collections.abc import Iterator
from dataclasses import replace

from sandhold.desired import archiving, orders, size_guard
from sandhold.desired.plan import Delete, Order, Plan
from sandhold.desired.seen import SeenPod
from sandhold.desired.situation import Situation
from sandhold.desired.world import Kept
from sandhold.reasons import RefusalCode

RENEW_SECONDS = orders.KEPT_SECONDS // 2
"""A grant with less life than this is renewed."""
WIDEN_SECONDS = 60
"""How old a grant is at least that is renewed because of its limits."""


def with_standing_orders(situation: Situation, pod: SeenPod, plan: Plan) -> Plan:
    """The plan for a running pod, and what its keeper lacks. A pod that stops or goes gets nothing new.

    Nor is a session kept from being Ready by orders that can come a moment later.
    """
    ends = any(isinstance(call, Order) and call.verb == "end" for call in plan.calls)
    becomes_ready = situation.status.phase != "Ready" and plan.status is not None and plan.status["phase"] == "Ready"
    if ends or becomes_ready or not _may_hold(situation, pod):
        return plan
    grants = tuple(_grants(situation, pod))
    renewal = _renewal(situation)
    wake = min((each for each in (plan.wake_after, renewal) if each is not None), default=None)
    # An entry waits until they are held: one that cannot be written (a quota, a policy) would keep them from that.
    writes = plan.writes if not grants else tuple(each for each in plan.writes if isinstance(each, Delete))
    return replace(plan, writes=writes, calls=(*plan.calls, *grants, *_guard(situation, pod)), wake_after=wake)


def _may_hold(situation: Situation, pod: SeenPod) -> bool:
    """Only an open gate's keeper, and only for the slot and epoch that its workspace is marked with."""
    report = situation.report
    is_marked = (report.marker_slot, report.marker_epoch) == (situation.slot, situation.epoch)
    return situation.is_connected and bool(report.opened) and is_marked and pod.deletion is None and not pod.is_dead


def _grants(situation: Situation, pod: SeenPod) -> Iterator[Order]:
    sandbox, store = situation.sandbox, situation.store
    if not situation.keeps_archives or sandbox is None or store is None:
        return
    kept = situation.report.kept or Kept()
    holder = archiving.holder_of(situation, pod, store)
    for until, is_final in ((kept.checkpoint, False), (kept.final, True)):
        if _is_due(situation, until):
            yield orders.keep_order(pod.uid, orders.standing_grant(holder, sandbox, final=is_final))


def _guard(situation: Situation, pod: SeenPod) -> tuple[Order, ...]:
    wanted = size_guard.wanted_guard(situation, pod)
    return (orders.guard_order(pod.uid, wanted),) if wanted is not None and wanted != situation.report.guard else ()


def _is_due(situation: Situation, until: int) -> bool:
    """Half spent; or found too narrow a while after it was given: its limits may have been raised since."""
    report, rest = situation.report, until - situation.now.timestamp()
    is_too_narrow = report.archive_state == "Failed" and report.archive_code == RefusalCode.SNAPSHOT_TOO_LARGE
    return rest < (orders.KEPT_SECONDS - WIDEN_SECONDS if is_too_narrow else RENEW_SECONDS)


def _renewal(situation: Situation) -> float | None:
    """When the next grant is half spent. One that is due already is looked at again when its keeper says something."""
    kept = situation.report.kept
    if kept is None or not situation.keeps_archives:
        return None
    rest = min(kept.checkpoint, kept.final) - situation.now.timestamp() - RENEW_SECONDS
    return rest + 1 if rest > 0 else None
