"""What sweeps meet: objects exactly as the operator makes them, and surveys in which nobody owns them any more.

Each is an orphan in every respect. `SPOILERS` has one change for each condition under which a sweep must keep it.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sandhold import names
from sandhold.api.meta import time_text
from sandhold.desired.orphans import Survey
from sandhold.desired.sighting import Owner, owner_in, sighting_of
from sandhold.desired.sweeping import Seen, SweepLimits, SweepPlan, plan_sweep
from sandhold.desired.world import ABSENT, Observed, Present, Unknown
from testkit import worlds

GRACE = 600.0
LIMITS = SweepLimits(grace_seconds=GRACE, breaker_share=0.2)
INSTALLATION = "demo"
MONOTONIC = 100_000.0
UNKNOWN = Unknown("no answer")
Document = dict[str, Any]
MAKERS: Mapping[str, Callable[[], Any]] = {
    "Pod": worlds.a_pod,
    "PodDisruptionBudget": worlds.a_budget,
    "NetworkPolicy": worlds.a_policy,
    "ServiceAccount": worlds.an_account,
}
KINDS = tuple(MAKERS)


def a_leftover(kind: str = "Pod", number: int = 0) -> Document:
    """An object as we made it a day ago. Each number is an object of its own, of an owner of its own."""
    document: Document = deepcopy(dict(MAKERS[kind]()))
    metadata = document["metadata"]
    metadata["creationTimestamp"] = time_text(worlds.NOW - timedelta(days=1))
    if number:
        uid = f"00000000-0000-4000-8000-{number:012d}"
        metadata["uid"] = f"f{uid[1:]}"
        _rename(metadata, Owner(_owner_kind(kind), worlds.NAMESPACE, f"quill-{number}", uid))
    metadata["managedFields"] = [managed(names.FIELD_MANAGER, *metadata["labels"])]
    return document


def _owner_kind(kind: str) -> str:
    return "SandboxSession" if kind == "Pod" else "AgentSandbox"


def _rename(metadata: Document, owner: Owner) -> None:
    """Make it the object of another owner."""
    metadata["annotations"][names.ANNOTATION_OWNER] = names.owner_value(
        owner.kind, owner.namespace, owner.name, owner.uid
    )
    if owner.kind == "SandboxSession":
        metadata["labels"][names.LABEL_SESSION_UID] = owner.uid
        metadata["name"] = names.pod_name(owner.name, owner.uid, 1)
    else:
        metadata["labels"][names.LABEL_SANDBOX_UID] = owner.uid
        metadata["name"] = names.sandbox_object_name(owner.name, owner.uid)


def managed(manager: str, *labels: str) -> Document:
    """An entry of managedFields by which a manager owns labels."""
    owned: Document = {"f:labels": {f"f:{label}": {} for label in labels}}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:metadata": owned, "f:spec": {}}}


@dataclass
class Case:
    """One object, all that was read about it, and what the sweep before noted. An orphan, until it is spoilt."""

    document: Document
    is_asked: bool = True
    owner: Observed[str] = ABSENT
    namespace: Observed[bool] = field(default_factory=lambda: Present(value=False))
    pods_behind: Observed[int] = field(default_factory=lambda: Present(0))
    seen: Seen | None = None

    def __post_init__(self) -> None:
        """It was seen as an orphan long enough ago."""
        owner = owner_in(self.document)
        if owner is not None:
            self.seen = Seen(owner, MONOTONIC - GRACE - 1)

    @property
    def metadata(self) -> Document:
        """The object's own."""
        metadata: Document = self.document["metadata"]
        return metadata

    @property
    def labels(self) -> Document:
        """The object's own."""
        labels: Document = self.metadata["labels"]
        return labels

    @property
    def uid_label(self) -> str:
        """The label that says whose it is."""
        return names.LABEL_SESSION_UID if self.document["kind"] == "Pod" else names.LABEL_SANDBOX_UID

    def set_label(self, label: str, value: str | None) -> None:
        """Our own field manager sets it, or takes it off."""
        self.labels.pop(label, None)
        if value is not None:
            self.labels[label] = value
        self.metadata["managedFields"] = [managed(names.FIELD_MANAGER, *self.labels)]

    def give_to(self, manager: str, label: str) -> None:
        """Another field manager sets a label to the value that it has."""
        kept = [each for each in self.labels if each != label]
        self.metadata["managedFields"] = [managed(names.FIELD_MANAGER, *kept), managed(manager, label)]

    def set_owner(self, text: str | None) -> None:
        """Somebody wrote over the annotation, long ago; that owner is absent just as well."""
        self.metadata["annotations"].pop(names.ANNOTATION_OWNER)
        if text is not None:
            self.metadata["annotations"][names.ANNOTATION_OWNER] = text
        self.__post_init__()


def _age(case: Case, seconds: float | None) -> None:
    if seconds is None:
        del case.metadata["creationTimestamp"]
    else:
        case.metadata["creationTimestamp"] = time_text(worlds.NOW - timedelta(seconds=seconds))


def _owner_text(case: Case, **changes: str) -> str:
    found = owner_in(case.document)
    assert found is not None
    parts = {"kind": found.kind, "namespace": found.namespace, "name": found.name, "uid": found.uid, **changes}
    return names.owner_value(parts["kind"], parts["namespace"], parts["name"], parts["uid"])


def _set(case: Case, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(case, name, value)


def _seen_for(case: Case, seconds: float) -> None:
    owner = owner_in(case.document)
    assert owner is not None
    case.seen = Seen(owner, MONOTONIC - seconds)


Spoiler = Callable[[Case], object]
WEBUI: Mapping[str, Spoiler] = {
    "our mark": lambda case: case.set_label(names.LABEL_KIND, "webui"),
    "our mark in capitals": lambda case: case.set_label(names.LABEL_KIND, "WebUI"),
    "our mark as an annotation": lambda case: case.metadata["annotations"].update({names.LABEL_KIND: "webui"}),
    "the foreign mark": lambda case: case.set_label(names.LABEL_FOREIGN_WEBUI, "webui"),
    "the foreign mark of another kind": lambda case: case.set_label(names.LABEL_FOREIGN_WEBUI, "notebook"),
    "the foreign mark without a value": lambda case: case.set_label(names.LABEL_FOREIGN_WEBUI, ""),
    "the foreign mark as an annotation": lambda case: case.metadata["annotations"].update(
        {names.LABEL_FOREIGN_WEBUI: "webui"}
    ),
    "the foreign mark set by somebody else": lambda case: case.labels.update({names.LABEL_FOREIGN_WEBUI: "webui"}),
}
SPOILERS: Mapping[str, Spoiler] = {
    **{f"webui: {name}": spoil for name, spoil in WEBUI.items()},
    "another installation": lambda case: case.set_label(names.LABEL_INSTALLATION, "another"),
    "an installation id that begins alike": lambda case: case.set_label(names.LABEL_INSTALLATION, "demo-2"),
    "no installation": lambda case: case.set_label(names.LABEL_INSTALLATION, None),
    "managed by somebody else": lambda case: case.set_label(names.LABEL_MANAGED_BY, "helm"),
    "managed by nobody": lambda case: case.set_label(names.LABEL_MANAGED_BY, None),
    "a kind of a later version": lambda case: case.set_label(names.LABEL_KIND, "browser"),
    "no session or sandbox UID": lambda case: case.set_label(case.uid_label, None),
    "another session or sandbox UID": lambda case: case.set_label(
        case.uid_label, "5e550000-0000-4000-8000-00000000ffff"
    ),
    "installation id set by another manager": lambda case: case.give_to("kubectl-create", names.LABEL_INSTALLATION),
    "UID set by another manager": lambda case: case.give_to("kubectl-label", case.uid_label),
    "managed fields cleared": lambda case: case.metadata.update(managedFields=[]),
    "managed fields of a manager that is called nearly so": lambda case: case.metadata.update(
        managedFields=[managed("sandhold-cli", *case.labels)]
    ),
    "no owner annotation": lambda case: case.set_owner(None),
    "an owner annotation of another form": lambda case: case.set_owner("SandboxSession/quill"),
    "an owner without a UID": lambda case: case.set_owner(_owner_text(case, uid="")),
    "an owner of another kind": lambda case: case.set_owner(_owner_text(case, kind="SandboxSnapshot")),
    "an owner in another namespace": lambda case: case.set_owner(_owner_text(case, namespace="elsewhere")),
    "an owner of another name": lambda case: case.set_owner(_owner_text(case, name="another")),
    "an owner of another UID": lambda case: case.set_owner(
        _owner_text(case, uid="5e550000-0000-4000-8000-00000000ffff")
    ),
    "a copy under a name of somebody's own": lambda case: case.metadata.update(name="my-copy"),
    "no UID": lambda case: case.metadata.update(uid=""),
    "no resourceVersion": lambda case: case.metadata.update(resourceVersion=""),
    "owner there": lambda case: _set(case, owner=Present(str(case.labels[case.uid_label]))),
    "owner there, UID not told": lambda case: _set(case, owner=Present("")),
    "owner unknown": lambda case: _set(case, owner=UNKNOWN),
    "owner not asked": lambda case: _set(case, is_asked=False),
    "being deleted": lambda case: case.metadata.update(deletionTimestamp="2026-03-01T11:00:00Z"),
    "namespace being deleted": lambda case: _set(case, namespace=Present(value=True)),
    "namespace gone": lambda case: _set(case, namespace=ABSENT),
    "namespace unknown": lambda case: _set(case, namespace=UNKNOWN),
    "young": lambda case: _age(case, GRACE - 1),
    "made in the future": lambda case: _age(case, -GRACE),
    "age unknown": lambda case: _age(case, None),
    "age unreadable": lambda case: case.metadata.update(creationTimestamp="yesterday"),
    "first seen now": lambda case: _set(case, seen=None),
    "first seen a moment ago": lambda case: _seen_for(case, GRACE - 1),
    "seen before as another's": lambda case: _set(
        case, seen=Seen(Owner("SandboxSession", worlds.NAMESPACE, "other", "other"), 0.0)
    ),
}
ONLY_PODS: Mapping[str, Spoiler] = {
    "no kind": lambda case: case.set_label(names.LABEL_KIND, None),
    "no epoch": lambda case: case.metadata["annotations"].pop(names.ANNOTATION_EPOCH),
    "another epoch": lambda case: case.metadata["annotations"].update({names.ANNOTATION_EPOCH: "2"}),
}
NOT_PODS: Mapping[str, Spoiler] = {
    "a pod behind it": lambda case: _set(case, pods_behind=Present(1)),
    "pods behind it unknown": lambda case: _set(case, pods_behind=UNKNOWN),
    "pods behind it not asked": lambda case: _set(case, pods_behind=ABSENT),
}


def spoilers_of(kind: str) -> Mapping[str, Spoiler]:
    """All that must keep an object of a kind."""
    return {**SPOILERS, **(ONLY_PODS if kind == "Pod" else NOT_PODS)}


def survey_of(*cases: Case) -> Survey:
    """What a survey of these objects knows."""
    sightings = tuple(sighting_of(case.document) for case in cases)
    owners: dict[Owner, Observed[str]] = {}
    for case, sighting in zip(cases, sightings, strict=True):
        if case.is_asked and sighting.owner is not None:
            owners[sighting.owner] = case.owner
    behind = {
        (each.reference.namespace, each.labels.get(names.LABEL_SANDBOX_UID, "")): case.pods_behind
        for case, each in zip(cases, sightings, strict=True)
    }
    namespaces = {each.reference.namespace: case.namespace for case, each in zip(cases, sightings, strict=True)}
    return Survey(INSTALLATION, sightings, {}, owners, namespaces, behind)


def plan_of(*cases: Case, limits: SweepLimits = LIMITS) -> SweepPlan:
    """The plan of a sweep over these objects."""
    before = {case.metadata["uid"]: case.seen for case in cases if case.seen is not None}
    return plan_sweep(survey_of(*cases), before, limits, worlds.NOW, MONOTONIC)
