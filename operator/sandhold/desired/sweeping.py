"""PURE: what one sweep does about the orphans of a survey: who waited long enough, how many at once, or none at all.

`orphans.py` says which objects nobody owns. Here the sweep before counts, the graces, and the breaker that lets nothing
be deleted when a survey calls more orphans than leftovers are likely to be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandhold import names
from sandhold.desired.orphans import ORPHANS, OWNER_KINDS, POD, Kept, Outcome, Survey, judge
from sandhold.desired.sighting import Owner, Sighting
from sandhold.desired.world import Keeper, KeeperReport
from sandhold.slots.key import slot_key

LEAST = 5
"""So few orphans never stop a sweep, however small the installation is."""
MOST_AT_ONCE = 50
"""Collected in one sweep at most, so that many pods do not archive at once; the rest follows in the next."""
LEAST_LEAVE_SECONDS = 300
"""What a grant must outlive a pod's grace by: a sweep takes a while, and clocks differ."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An orphan of the sweep before: what it was an orphan of, and when (monotonic) that was first seen."""

    owner: Owner
    since: float


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """What a person sets."""

    grace_seconds: float
    breaker_share: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a sweep makes of one object, and the sentence that says why."""

    sighting: Sighting
    outcome: Outcome
    message: str

    @property
    def is_orphan(self) -> bool:
        """Whether nobody owns it, collected now or not."""
        return self.outcome in ORPHANS


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Everything that one sweep wants. `collect` is what `cluster/sweep.py` deletes, and nothing else is."""

    verdicts: tuple[Verdict, ...]
    unread: Mapping[str, str]
    stopped: str | None
    """Why the breaker lets nothing be deleted."""
    seen: Mapping[str, Seen]
    """Every orphan of this sweep by UID: what the next sweep is given."""

    @property
    def collect(self) -> tuple[Verdict, ...]:
        """What is to be deleted; nothing once the breaker stopped the sweep."""
        return () if self.stopped else tuple(each for each in self.verdicts if each.outcome is Outcome.COLLECT)


def plan_sweep(
    survey: Survey, before: Mapping[str, Seen], limits: SweepLimits, now: datetime, monotonic: float
) -> SweepPlan:
    """Decide. `before` is what the sweep before this one, of the same process, called orphans."""
    verdicts: list[Verdict] = []
    seen: dict[str, Seen] = {}
    for sighting in survey.sightings:
        found = judge(survey, sighting)
        if not isinstance(found, Kept):
            found = _stranded(survey, sighting, now) or found
        if isinstance(found, Kept):
            verdicts.append(Verdict(sighting, found.outcome, found.message))
            continue
        known = before.get(sighting.uid)
        is_known = known is not None and known.owner == found.owner
        since = known.since if known is not None and is_known else monotonic
        seen[sighting.uid] = Seen(found.owner, since)
        outcome, wait = _in_time(sighting, limits, now, monotonic - since) if is_known else _FIRST
        verdicts.append(Verdict(sighting, outcome, f"{found.message}; {wait}"))
    ordered = _bounded(verdicts)
    return SweepPlan(ordered, survey.unread, _breaker(ordered, limits.breaker_share), seen)


def leave_until(keepers: Mapping[str, Keeper]) -> Mapping[str, int]:
    """What a survey needs to know of keepers: of those whose gate was opened and whose last archive is not stored.

    One that was never told of a grant belongs to an AgentSandbox that keeps no archives.
    """
    reports = ((uid, keeper.report) for uid, keeper in keepers.items())
    return {
        uid: report.kept.final
        for uid, report in reports
        if report is not None and report.kept is not None and report.opened and not _is_archived(report)
    }


def _is_archived(report: KeeperReport) -> bool:
    return report.archive_is_final and report.archive_state == "Stored"


def _stranded(survey: Survey, sighting: Sighting, now: datetime) -> Kept | None:
    """A grant lives for a day, and nobody renews that of an orphan. Without one a deletion's grace saves nothing."""
    until = survey.leave_until.get(sighting.uid)
    if until is None or until > now.timestamp() + (sighting.grace_seconds or 0) + LEAST_LEAVE_SECONDS:
        return None
    message = (
        "its keeper holds work that no archive has, and no grant that lasts to archive it with: take out of the pod "
        "what is needed (kubectl cp), then delete the pod"
    )
    return Kept(Outcome.WORK_STRANDED, message)


_FIRST = (Outcome.FIRST_SEEN, "it waits for a second sweep to see the same")


def _in_time(sighting: Sighting, limits: SweepLimits, now: datetime, known_for: float) -> tuple[Outcome, str]:
    """Both graces are over, or the object waits. An age in the future is a clock that cannot be believed."""
    grace = timedelta(seconds=limits.grace_seconds)
    if sighting.created is None or now - sighting.created < grace:
        return Outcome.IN_GRACE, f"it was made less than {limits.grace_seconds:.0f} s ago"
    if known_for < limits.grace_seconds:
        return Outcome.IN_GRACE, f"that was first seen less than {limits.grace_seconds:.0f} s ago"
    return Outcome.COLLECT, "it is collected"


def _bounded(verdicts: list[Verdict]) -> tuple[Verdict, ...]:
    """Pods first, and no more at once than movers can take."""
    order = list(OWNER_KINDS)

    def rank(verdict: Verdict) -> tuple[int, str, str]:
        reference = verdict.sighting.reference
        known = order.index(reference.kind) if reference.kind in order else len(order)
        return known, reference.namespace, reference.name

    return tuple(_within(sorted(verdicts, key=rank)))


def _within(verdicts: list[Verdict]) -> Iterator[Verdict]:
    taken = 0
    for verdict in verdicts:
        taken += verdict.outcome is Outcome.COLLECT
        if verdict.outcome is Outcome.COLLECT and taken > MOST_AT_ONCE:
            yield Verdict(verdict.sighting, Outcome.LATER, f"{verdict.message} in a later sweep")
        else:
            yield verdict


def _breaker(verdicts: tuple[Verdict, ...], share: float) -> str | None:
    """So many orphans at once are more likely a mistake (a lost store, another API server) than leftovers.

    All orphans count, due or not, in all and of each kind: a loss must not pass in small portions.
    """
    looked = Counter(verdict.sighting.reference.kind for verdict in verdicts)
    found = Counter(verdict.sighting.reference.kind for verdict in verdicts if verdict.is_orphan)
    for what, many, of in [("objects", found.total(), looked.total()), *((k, found[k], looked[k]) for k in found)]:
        if many > max(LEAST, share * of):
            return f"{many} of {of} {what} look like orphans, which is more than {share:.0%}: nothing is collected"
    return None


def evidence(verdict: Verdict, installation_id: str) -> str:
    """What people need to know of a collected object; of a pod, where its work is."""
    sighting, owner = verdict.sighting, verdict.sighting.owner
    if sighting.reference.kind != POD or owner is None:
        return f"{verdict.message}."
    sandbox = sighting.labels.get(names.LABEL_SANDBOX, "")
    slot = slot_key(installation=installation_id, namespace=owner.namespace, sandbox=sandbox, session=owner.name)
    return (
        f"{verdict.message} with its own grace of {sighting.grace_seconds} s. If its gate was open, its keeper "
        f"archives the workspace within that, as epoch {sighting.epoch} of slot {slot}. Older archives: kubectl get "
        f"sandboxsnapshots -n {owner.namespace} -l {names.LABEL_SLOT}={slot}. A SandboxSession {owner.name} of "
        f"AgentSandbox {sandbox} starts from the newest."
    )


def as_document(plan: SweepPlan) -> dict[str, Any]:
    """The plan as plain data, for `-o json` and logs."""
    return {
        "stopped": plan.stopped,
        "unread": dict(plan.unread),
        "objects": [
            {
                "kind": each.sighting.reference.kind,
                "namespace": each.sighting.reference.namespace,
                "name": each.sighting.reference.name,
                "uid": each.sighting.uid,
                "owner": None if each.sighting.owner is None else str(each.sighting.owner),
                "outcome": str(each.outcome),
                "orphan": each.is_orphan,
                "message": each.message,
            }
            for each in plan.verdicts
        ],
    }
