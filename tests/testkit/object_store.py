"""What an API server does to objects, in memory: versions, generations, finalizers, deletion, watches.

`fake_cluster.py` puts the operator's door before it; tests use it directly for what users, kubelet and controllers do.
That it behaves like the real server is asserted by `tests/e2e/test_fake_is_honest.py`.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sandhold.cluster.answers import NamespaceEndingError
from sandhold.desired.plan import Reference
from sandhold.errors import ConflictError, InvalidError, NotFoundError
from testkit.crd_schema import conformed
from testkit.documents import copied

Document = dict[str, Any]
Watcher = Callable[[str, Document], None]
"""Called with ADDED, MODIFIED or DELETED and the object, once for each change, in order."""

_OWN = frozenset({"AgentSandbox", "SandboxSession", "SandboxSnapshot"})
HAS_STATUS = _OWN | {"Pod", "Namespace", "PodDisruptionBudget"}
HAS_GENERATION = _OWN | {"Pod", "NetworkPolicy", "PodDisruptionBudget"}
CLUSTER_SCOPED = frozenset({"Namespace", "RuntimeClass", "Node", "CustomResourceDefinition"})
_GIVEN = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Parts of metadata that only the server sets."""


def stamp(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reference_to(document: Mapping[str, Any]) -> Reference:
    """The address of a document."""
    metadata = document["metadata"]
    namespace = "" if document["kind"] in CLUSTER_SCOPED else metadata.get("namespace", "")
    return Reference(document["apiVersion"], document["kind"], namespace, metadata["name"])


class ObjectStore:
    """Every object, by reference. What comes in is copied; what goes out is the object itself: nobody may change it."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._version = 100
        self._made = 0
        self._objects: dict[Reference, Document] = {}
        self._watchers: list[Watcher] = []
        self.deleted: list[Document] = []

    @property
    def version(self) -> str:
        """The resourceVersion of the last change."""
        return str(self._version)

    def watch(self, watcher: Watcher) -> None:
        """Tell a watcher of every change from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop telling it."""
        self._watchers.remove(watcher)

    def get(self, reference: Reference) -> Document:
        """One object."""
        return self._existing(reference)

    def look(self, reference: Reference) -> Document | None:
        """One object, or None."""
        return self._objects.get(reference)

    def everything(self) -> list[Document]:
        """Every object."""
        return list(self._objects.values())

    def count(self, kind: str) -> int:
        """How many of a kind there are."""
        return sum(reference.kind == kind for reference in self._objects)

    def all(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Every object of a kind, by namespace and name."""
        found = [
            document
            for reference, document in self._objects.items()
            if reference.kind == kind and namespace in (None, "", reference.namespace)
        ]
        return sorted(found, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))

    def create(self, document: Mapping[str, Any]) -> Document:
        """A new object; the name must be free and its namespace there and not on its way out."""
        reference = reference_to(document)
        self._check_namespace(reference)
        if reference in self._objects:
            raise ConflictError(f"{reference.kind} `{reference.name}` already exists")
        made = conformed(copied(dict(document)))
        self._made += 1
        metadata = made["metadata"]
        for key in (*_GIVEN, "resourceVersion"):
            metadata.pop(key, None)
        metadata["uid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, str(self._made)))
        metadata["creationTimestamp"] = stamp(self._clock())
        if reference.kind in HAS_GENERATION:
            metadata["generation"] = 1
        if reference.kind in HAS_STATUS:
            made.pop("status", None)
        if reference.kind == "Pod":
            made["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        return self._commit(reference, made, "ADDED")

    def update(self, document: Mapping[str, Any], subresource: str | None = None) -> Document:
        """Replace an object's content, or its status alone; identity and versions are the store's own business."""
        reference = reference_to(document)
        live = self._existing(reference)
        self._check_preconditions(reference, live, document["metadata"])
        return self._store_changed(reference, live, copied(dict(document)), subresource)

    def _store_changed(
        self, reference: Reference, live: Document, wanted: Document, subresource: str | None
    ) -> Document:
        # Versions share what they have in common, and what came in was copied already: nobody changes a document.
        if subresource == "status":
            result = {key: value for key, value in live.items() if key != "status"}
            result["metadata"] = copied(live["metadata"])
            if "status" in wanted:
                result["status"] = wanted["status"]
        else:
            result = {**wanted, "metadata": copied(wanted["metadata"])}
            if reference.kind in HAS_STATUS:
                result.pop("status", None)
                if "status" in live:
                    result["status"] = live["status"]
            self._restore_identity(result, live)
            self._check_finalizers(live, result)
        result = conformed(result)
        if result == live:
            return live
        if reference.kind in HAS_GENERATION and _content(result) != _content(live):
            result["metadata"]["generation"] = live["metadata"]["generation"] + 1
        if _is_over(result):
            self._remove(reference, copied(result))
            # The answer still bears the version from before; only the watch tells a new one.
            return result
        return self._commit(reference, result, "MODIFIED")

    def delete(
        self, reference: Reference, uid: str | None = None, version: str | None = None, grace: int | None = None
    ) -> None:
        """Remove an object, or mark it where finalizers or a running pod's grace keep it."""
        live = self._existing(reference)
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value is not None}
        self._check_preconditions(reference, live, preconditions)
        seconds = self._grace(live, grace)
        result = copied(live)
        metadata = result["metadata"]
        marked = "deletionTimestamp" in metadata
        if marked and seconds >= metadata["deletionGracePeriodSeconds"]:
            return
        if seconds == 0 and not metadata.get("finalizers"):
            self._remove(reference, result)
            return
        metadata["deletionTimestamp"] = stamp(self._clock() + timedelta(seconds=seconds))
        metadata["deletionGracePeriodSeconds"] = seconds
        if not marked and reference.kind in HAS_GENERATION:
            metadata["generation"] += 1
        self._commit(reference, result, "MODIFIED")

    def vanish(self, reference: Reference) -> None:
        """Take an object away whatever protects it: a forced deletion, a lost node."""
        self._remove(reference, copied(self._existing(reference)))

    def change(self, reference: Reference, mutate: Callable[[Document], None]) -> Document:
        """What somebody else does to an object, status included: `mutate` works on a copy that is then stored."""
        live = self._existing(reference)
        wanted = copied(live)
        mutate(wanted)
        changed = self._store_changed(reference, live, wanted, None)
        if reference.kind in HAS_STATUS and wanted.get("status") != live.get("status"):
            changed = self._store_changed(reference, self._existing(reference), wanted, "status")
        return changed

    def _existing(self, reference: Reference) -> Document:
        try:
            return self._objects[reference]
        except KeyError:
            raise NotFoundError(f"{reference.kind} `{reference.namespace}/{reference.name}` not found") from None

    def _check_namespace(self, reference: Reference) -> None:
        if reference.kind in CLUSTER_SCOPED:
            return
        home = self._existing(Reference("v1", "Namespace", "", reference.namespace))
        if "deletionTimestamp" in home["metadata"]:
            raise NamespaceEndingError(f"namespace `{reference.namespace}` is being terminated")

    @staticmethod
    def _check_preconditions(reference: Reference, live: Document, wanted: Mapping[str, Any]) -> None:
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) not in (None, live["metadata"][key]):
                raise ConflictError(f"{reference.kind} `{reference.name}`: the {key} differs")

    @staticmethod
    def _restore_identity(result: Document, live: Document) -> None:
        metadata = result.setdefault("metadata", {})
        for key in (*_GIVEN, "managedFields"):
            metadata.pop(key, None)
            if key in live["metadata"]:
                metadata[key] = live["metadata"][key]
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)

    @staticmethod
    def _check_finalizers(live: Document, result: Document) -> None:
        added = set(result["metadata"].get("finalizers", [])) - set(live["metadata"].get("finalizers", []))
        if added and "deletionTimestamp" in live["metadata"]:
            raise InvalidError("metadata.finalizers: no new finalizers can be added if the object is being deleted")

    @staticmethod
    def _grace(live: Document, asked: int | None) -> int:
        if live["kind"] != "Pod" or not live.get("spec", {}).get("nodeName"):
            return 0
        if live.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(asked if asked is not None else live["spec"].get("terminationGracePeriodSeconds", 30))

    def _commit(self, reference: Reference, document: Document, event: str) -> Document:
        self._version += 1
        document["metadata"]["resourceVersion"] = self.version
        self._objects[reference] = document
        for watcher in tuple(self._watchers):
            watcher(event, document)
        return document

    def _remove(self, reference: Reference, document: Document) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = self.version
        del self._objects[reference]
        self.deleted.append(document)
        for watcher in tuple(self._watchers):
            watcher("DELETED", document)


def _content(document: Document) -> Document:
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _is_over(document: Document) -> bool:
    metadata = document["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return int(metadata.get("deletionGracePeriodSeconds", 0)) == 0
