"""One listed object, reduced to what a sweep may judge it by: identity, labels and who set them, owner, age.

A list may hold thousands of whole pods; a `Sighting` is what is kept of each. Reading only: what a sighting means is
`orphans.py`'s business.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandhold import names
from sandhold.api.meta import moment
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom an object was made for, as its annotation says."""

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} (UID {self.uid})"


@dataclass(frozen=True, slots=True)
class Sighting:
    """An object as the API server listed it a moment ago."""

    reference: Reference
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    """The labels that say whose it is; no others."""
    set_by_us: frozenset[str]
    """Labels that our field manager owns, by metadata.managedFields."""
    is_webui: bool
    owner: Owner | None
    epoch: int | None
    created: datetime | None
    is_ending: bool
    grace_seconds: int | None
    """The pod's own grace: what its keeper has for the last archive."""


_TOLD = (
    names.LABEL_INSTALLATION,
    names.LABEL_MANAGED_BY,
    names.LABEL_KIND,
    names.LABEL_SANDBOX,
    names.LABEL_SANDBOX_UID,
    names.LABEL_SESSION_UID,
)


def sighting_of(document: KubeObject) -> Sighting:
    """What is kept of a listed object, which carries apiVersion and kind."""
    metadata = document["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    place = (metadata.get("namespace", ""), metadata["name"])
    return Sighting(
        reference=Reference(document["apiVersion"], document["kind"], *place),
        uid=str(metadata.get("uid", "")),
        resource_version=str(metadata.get("resourceVersion", "")),
        labels={key: labels[key] for key in _TOLD if key in labels},
        set_by_us=labels_set_by_us(document),
        is_webui=_is_webui(labels) or _is_webui(annotations),
        owner=owner_in(document),
        epoch=_epoch(annotations.get(names.ANNOTATION_EPOCH)),
        created=moment(metadata.get("creationTimestamp")),
        is_ending=bool(metadata.get("deletionTimestamp")),
        grace_seconds=(document.get("spec") or {}).get("terminationGracePeriodSeconds"),
    )


def owner_in(document: KubeObject) -> Owner | None:
    """The owner that an object's annotation names; None unless all four parts are there."""
    text = (document["metadata"].get("annotations") or {}).get(names.ANNOTATION_OWNER, "")
    parts = text.split("/")
    return Owner(*parts) if len(parts) == 4 and all(parts) else None


def labels_set_by_us(document: KubeObject) -> frozenset[str]:
    """The labels that our field manager owns. Whoever wrote over one of them owns it now, and we do not."""
    found: set[str] = set()
    for entry in document["metadata"].get("managedFields") or ():
        if entry.get("manager") == names.FIELD_MANAGER:
            found |= _labels_of(entry)
    return frozenset(found)


def _labels_of(entry: Mapping[str, Any]) -> set[str]:
    fields: Any = entry.get("fieldsV1")
    for step in ("f:metadata", "f:labels"):
        if not isinstance(fields, Mapping) or step not in fields:
            return set()
        fields = fields[step]
    return {key.removeprefix("f:") for key in fields} if isinstance(fields, Mapping) else set()


def _is_webui(words: Mapping[str, str]) -> bool:
    """Either mark, as a label or as an annotation. Any value of the foreign one counts: we do not own its values."""
    return words.get(names.LABEL_KIND, "").lower() == names.KIND_WEBUI or names.LABEL_FOREIGN_WEBUI in words


def _epoch(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and 0 < len(text) <= 10
    return int(text) if text is not None and is_number else None
