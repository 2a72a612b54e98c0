"""PURE: which objects nobody owns any more.

One condition after the other, and the first that does not hold keeps the object and says why. An orphan has our
installation id, our `managed-by`, and the UID of its session or AgentSandbox, both ids set by our field manager; it has
the name that we would have given; its owner was read live and is absent; its namespace stays; no pod stands behind it.
What could not be read keeps it. SandboxSnapshots and whatever is in a store are never looked at. When an orphan is
collected is `sweeping.py`'s business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sandhold import names
from sandhold.desired.sighting import Owner, Sighting
from sandhold.desired.world import Absent, Observed, Present, Unknown

POD = "Pod"
OWNER_KINDS: Mapping[str, str] = {
    POD: "SandboxSession",
    "PodDisruptionBudget": "AgentSandbox",
    "NetworkPolicy": "AgentSandbox",
    "ServiceAccount": "AgentSandbox",
}
"""What is swept, and for what kind of object each is made. Pods first: what stands around them goes last."""


class Outcome(StrEnum):
    """What a sweep makes of an object."""

    COLLECT = "Collect"
    FIRST_SEEN = "FirstSeen"
    IN_GRACE = "InGrace"
    LATER = "Later"
    OWNED = "Owned"
    WEBUI = "WebUI"
    FOREIGN = "Foreign"
    NOT_OURS = "NotOurs"
    OWNER_UNCLEAR = "OwnerUnclear"
    OWNER_UNKNOWN = "OwnerUnknown"
    ENDING = "Ending"
    NAMESPACE_ENDING = "NamespaceEnding"
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    PODS_BEHIND = "PodsBehind"
    PODS_UNKNOWN = "PodsUnknown"
    WORK_STRANDED = "WorkStranded"


ORPHANS = frozenset({Outcome.COLLECT, Outcome.FIRST_SEEN, Outcome.IN_GRACE, Outcome.LATER})
"""Everything but time says that these are to be collected."""
Walls = tuple[str, str]
"""Namespace and UID of an AgentSandbox: what pods behind a policy or account are found by."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All that one sweep knows, read live and gathered before anything is decided."""

    installation_id: str
    sightings: tuple[Sighting, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    """Kinds that could not be listed, and why: nothing of them is collected."""
    owners: Mapping[Owner, Observed[str]] = field(default_factory=dict)
    """The UID that a read of the owner's name gave. An owner that is missing here was not asked about."""
    namespaces: Mapping[str, Observed[bool]] = field(default_factory=dict)
    """Whether a namespace is being deleted."""
    pods_behind: Mapping[Walls, Observed[int]] = field(default_factory=dict)
    """How many pods carry an AgentSandbox's UID, whoever made them and whatever they are."""
    leave_until: Mapping[str, int] = field(default_factory=dict)
    """By UID of each pod that is known to hold work: until when (Unix seconds) its keeper may archive it by itself."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An object that is left alone, and the sentence that says why."""

    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object that nobody owns, whom it was made for, and what was read of that owner."""

    owner: Owner
    message: str


def judge(survey: Survey, sighting: Sighting) -> Orphan | Kept:
    """Whether anything but time speaks against collecting an object."""
    kept = _protected(survey.installation_id, sighting) or _misfit(sighting)
    if kept is not None or sighting.owner is None:
        return kept or Kept(Outcome.OWNER_UNCLEAR, _UNCLEAR)
    found = _without_owner(survey, sighting, sighting.owner)
    if isinstance(found, Kept):
        return found
    return _place_ends(survey, sighting) or _shelters(survey, sighting) or found


def owner_to_ask(installation_id: str, sighting: Sighting) -> Owner | None:
    """The owner that has to be read before an object can be judged; None when it is kept whatever a read says."""
    if sighting.is_ending or _protected(installation_id, sighting) or _misfit(sighting):
        return None
    return sighting.owner


def walls_of(sighting: Sighting) -> Walls | None:
    """Where to look for pods that still stand behind an object; None for pods themselves."""
    if sighting.reference.kind == POD:
        return None
    return sighting.reference.namespace, sighting.labels.get(names.LABEL_SANDBOX_UID, "")


_UNCLEAR = f"annotation {names.ANNOTATION_OWNER} is missing or has another form than kind/namespace/name/uid"


def _protected(installation_id: str, sighting: Sighting) -> Kept | None:
    """Interactive pods, whatever else they are; then everything that is not this installation's."""
    labels = sighting.labels
    if sighting.is_webui:
        return Kept(Outcome.WEBUI, "it is marked as an interactive WebUI object")
    if not installation_id or labels.get(names.LABEL_INSTALLATION) != installation_id:
        return Kept(Outcome.FOREIGN, f"label {names.LABEL_INSTALLATION} is not {installation_id}")
    if sighting.reference.kind not in OWNER_KINDS:
        return Kept(Outcome.FOREIGN, f"{sighting.reference.kind} is no kind that is swept")
    if labels.get(names.LABEL_MANAGED_BY) != names.MANAGED_BY:
        return Kept(Outcome.NOT_OURS, f"label {names.LABEL_MANAGED_BY} is not {names.MANAGED_BY}")
    kind = labels.get(names.LABEL_KIND)
    if kind != names.KIND_AGENT and (sighting.reference.kind == POD or kind is not None):
        return Kept(Outcome.NOT_OURS, f"label {names.LABEL_KIND} is {kind}, which this version does not know")
    return None


def _misfit(sighting: Sighting) -> Kept | None:
    """The owner must be named and fit the object, and the ids must be of our own making."""
    owner, reference = sighting.owner, sighting.reference
    if owner is None:
        return Kept(Outcome.OWNER_UNCLEAR, _UNCLEAR)
    label = names.LABEL_SESSION_UID if reference.kind == POD else names.LABEL_SANDBOX_UID
    wrong = _contradiction(sighting, owner, label)
    if wrong is not None:
        return Kept(Outcome.OWNER_UNCLEAR, wrong)
    theirs = sorted({names.LABEL_INSTALLATION, label} - sighting.set_by_us)
    if theirs:
        return Kept(Outcome.NOT_OURS, f"field manager {names.FIELD_MANAGER} did not set {' and '.join(theirs)}")
    if not sighting.uid or not sighting.resource_version:
        return Kept(Outcome.NOT_OURS, "it has no UID or no resourceVersion to tell it by")
    return None


def _contradiction(sighting: Sighting, owner: Owner, label: str) -> str | None:
    """What of kind, namespace, label and name does not fit the owner that the annotation names."""
    reference = sighting.reference
    if owner.kind != OWNER_KINDS[reference.kind]:
        return f"a {reference.kind} is made for a {OWNER_KINDS[reference.kind]}, not for {owner}"
    if owner.namespace != reference.namespace:
        return f"its owner {owner} would be in another namespace"
    if sighting.labels.get(label) != owner.uid:
        return f"label {label} does not fit the owner {owner}"
    if reference.name != _expected_name(sighting, owner):
        return f"its name is not the one that is given for {owner}: a copy, perhaps"
    return None


def _expected_name(sighting: Sighting, owner: Owner) -> str | None:
    if sighting.reference.kind != POD:
        return names.sandbox_object_name(owner.name, owner.uid)
    return None if sighting.epoch is None else names.pod_name(owner.name, owner.uid, sighting.epoch)


def _without_owner(survey: Survey, sighting: Sighting, owner: Owner) -> Orphan | Kept:
    """Only a read that confirms the absence counts: nothing under the name, or an object with another UID."""
    if sighting.is_ending:
        return Kept(Outcome.ENDING, "it is being deleted already")
    match survey.owners.get(owner):
        case Absent():
            return Orphan(owner, f"{owner} was read, and it is absent")
        case Present(uid) if uid and uid != owner.uid:
            return Orphan(owner, f"{owner} was read, and its name belongs to another object (UID {uid})")
        case Present():
            return Kept(Outcome.OWNED, f"{owner} is there")
        case Unknown(why):
            return Kept(Outcome.OWNER_UNKNOWN, f"whether {owner} is there is not known: {why}")
    return Kept(Outcome.OWNER_UNKNOWN, f"whether {owner} is there was not asked in this sweep")


def _place_ends(survey: Survey, sighting: Sighting) -> Kept | None:
    """A namespace that is being deleted is Kubernetes' business."""
    namespace = sighting.reference.namespace
    match survey.namespaces.get(namespace):
        case Present(False):
            return None
        case Present(True) | Absent():
            return Kept(Outcome.NAMESPACE_ENDING, f"namespace {namespace} is being deleted, which takes it along")
    return Kept(Outcome.NAMESPACE_UNKNOWN, f"whether namespace {namespace} is being deleted is not known")


def _shelters(survey: Survey, sighting: Sighting) -> Kept | None:
    """Walls, account and budget go last: with the account Kubernetes would take the pods, with the policy the walls."""
    where = walls_of(sighting)
    if where is None:
        return None
    match survey.pods_behind.get(where):
        case Present(0):
            return None
        case Present(count):
            return Kept(Outcome.PODS_BEHIND, f"{count} pods of this AgentSandbox are still there")
    return Kept(Outcome.PODS_UNKNOWN, "whether pods of this AgentSandbox are still there is not known")
