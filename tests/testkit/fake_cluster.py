"""The operator's door to an API server that lives in memory: the same calls, the same error kinds, faults on demand.

It knows one field manager, ours. What other writers do is done on `objects` directly and never counted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sandhold.desired.plan import Reference
from sandhold.errors import ConflictError, InvalidError, NotFoundError
from sandhold.names import FIELD_MANAGER
from testkit.documents import Path, applied, copied, json_patched, owned_paths
from testkit.faults import Faults
from testkit.object_store import HAS_STATUS, Document, ObjectStore, reference_to

_TERMS = re.compile(r"(?:[^,(]|\([^)]*\))+")
_MAY_BE_MADE_BY_PUT = frozenset({"Lease"})


class FakeCluster:
    """Implements `sandhold.cluster.door.Door`."""

    def __init__(self, clock: Callable[[], datetime], faults: Faults | None = None) -> None:
        self.objects = ObjectStore(clock)
        self.faults = faults or Faults()
        self._owned: dict[Reference, frozenset[Path]] = {}

    def add_namespace(self, name: str) -> None:
        """Namespaces must exist before anything in them does."""
        self.objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def get(self, reference: Reference) -> Mapping[str, Any]:
        """Read one object."""
        return self.objects.get(reference)

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Read all of a kind."""
        found = [
            each
            for each in self.objects.all(kind, namespace)
            if each["apiVersion"] == api_version and selects(selector, each["metadata"].get("labels", {}))
        ]
        return found, self.objects.version

    async def create(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST."""
        number = self.faults.before(_what("create", reference_to(document)))
        made = self.objects.create(_managed(document))
        self.faults.after(number)
        return made

    async def apply(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Server-side apply, forced."""
        reference = reference_to(document)
        number = self.faults.before(_what("apply", reference))
        made = self._apply(reference, document)
        self.faults.after(number)
        return made

    def _apply(self, reference: Reference, document: Mapping[str, Any]) -> Mapping[str, Any]:
        given = document["metadata"]
        intent: Document = {key: copied(value) for key, value in document.items() if key not in ("metadata", "status")}
        if "status" in document and reference.kind not in HAS_STATUS:
            intent["status"] = copied(document["status"])
        intent["metadata"] = {
            key: copied(value) for key, value in given.items() if key not in ("uid", "resourceVersion")
        }
        try:
            live = self.objects.get(reference)
        except NotFoundError:
            if "uid" in given:
                raise ConflictError(f"{reference.kind} `{reference.name}`: the uid differs: there is none") from None
            self._owned[reference] = owned_paths(intent)
            return self.objects.create(_managed(intent))
        for key in ("uid", "resourceVersion"):
            if given.get(key) not in (None, live["metadata"][key]):
                raise ConflictError(f"{reference.kind} `{reference.name}`: the {key} differs")
        wanted = applied(live, intent, self._owned.get(reference, frozenset()))
        changed = self.objects.update(wanted)
        self._owned[reference] = owned_paths(intent)
        return changed

    async def replace(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """PUT. Objects of a few kinds are made by it when they are absent, as the real server does."""
        reference = reference_to(document)
        number = self.faults.before(_what("replace", reference))
        try:
            changed = self.objects.update(document)
        except NotFoundError:
            if reference.kind not in _MAY_BE_MADE_BY_PUT:
                raise
            if "uid" in document["metadata"]:
                raise ConflictError(f"{reference.kind} `{reference.name}`: the uid differs: there is none") from None
            changed = self.objects.create(document)
        self.faults.after(number)
        return changed

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> Mapping[str, Any]:
        """JSON patch of an object, or of its status."""
        what = "patch" if subresource is None else f"patch {subresource} of"
        number = self.faults.before(_what(what, reference))
        if subresource not in (None, "status"):
            raise InvalidError(f"the fake has no subresource `{subresource}`")
        changed = self.objects.update(json_patched(self.objects.get(reference), operations), subresource)
        self.faults.after(number)
        return changed

    async def delete(
        self, reference: Reference, uid: str, resource_version: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """DELETE with preconditions."""
        number = self.faults.before(_what("delete", reference))
        self.objects.delete(reference, uid, resource_version, grace_seconds)
        self.faults.after(number)


def _managed(document: Mapping[str, Any]) -> Document:
    """With what the server notes about who set which label; of the rest of managedFields nobody here reads anything."""
    labels: Document = {f"f:{key}": {} for key in document["metadata"].get("labels", {})}
    entry = {"manager": FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": labels}}}
    return {**document, "metadata": {**document["metadata"], "managedFields": [entry]}}


def _what(verb: str, reference: Reference) -> str:
    """The call in words, the same in every run: the names of Events are made from the real time."""
    name = reference.name.rpartition(".")[0] if reference.kind == "Event" else reference.name
    return f"{verb} {reference.kind} {reference.namespace}/{name}"


def selects(selector: str | None, labels: Mapping[str, str]) -> bool:
    """Label selectors: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a`, `!a`, joined by commas."""
    return all(_term_holds(term.strip(), labels) for term in _TERMS.findall(selector or "") if term.strip())


def _term_holds(term: str, labels: Mapping[str, str]) -> bool:
    if " in " in term:
        key, _, values = term.partition(" in ")
        return labels.get(key.strip()) in [value.strip() for value in values.strip(" ()").split(",")]
    if "!=" in term:
        key, _, value = term.partition("!=")
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, _, value = term.replace("==", "=").partition("=")
        return labels.get(key.strip()) == value.strip()
    if term.startswith("!"):
        return term[1:] not in labels
    return term in labels
