"""What the API server was last heard to hold: fed by watches, by lists and by the answers to our own writes.

Three laws. It never goes back: an older version of an object that it knows is ignored, so our own writes are seen at
once. What was deleted stays deleted: no late event brings it back. A list is compared with the whole kind, since the
watches never tell what vanished while they were away. What it holds is shared: nobody may change it. It reads and
decides nothing itself.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject

MOST_TOMBSTONES = 50_000
Place = tuple[str, str, str]
"""Kind, namespace, name."""
Index = Callable[[KubeObject], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Change:
    """What an event, a list or an answer changed: the object before and after, None where there was or is none."""

    kind: str
    before: KubeObject | None
    after: KubeObject | None

    @property
    def object(self) -> KubeObject:
        """The object, in its last known form."""
        known = self.after if self.after is not None else self.before
        assert known is not None  # noqa: S101 - one of the two is always there
        return known


def version_of(obj: KubeObject) -> int:
    """The resourceVersion as the number that it is; 0 where there is none."""
    text = obj.get("metadata", {}).get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


def place_of(obj: KubeObject) -> Place:
    """Where an object is kept."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


class Cache:
    """The store. `indices` maps a kind to named functions that say under which values an object is found."""

    def __init__(
        self,
        indices: Mapping[str, Mapping[str, Index]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        admits: Callable[[KubeObject], bool] = lambda _: True,
    ) -> None:
        self._indices = indices or {}
        self._clock = clock
        # Asked once for each object, when it is first seen and still has its managedFields.
        self._admits = admits
        self._objects: dict[str, dict[tuple[str, str], KubeObject]] = defaultdict(dict)
        self._found: dict[tuple[str, str, str], dict[tuple[str, str], None]] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._listed: dict[str, float] = {}
        self._revisions: dict[str, int] = defaultdict(int)
        self.on_change: Callable[[Change], None] = lambda _: None
        """Told of every change, whoever brought it: the watch tells nothing new of what our own write put in here."""

    def get(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """One object, if it is known."""
        return self._objects[kind].get((namespace, name))

    def find(self, reference: Reference) -> KubeObject | None:
        """One object by reference, if it is known."""
        return self.get(reference.kind, reference.namespace, reference.name)

    def all(self, kind: str) -> Iterator[KubeObject]:
        """Every known object of a kind."""
        return iter(list(self._objects[kind].values()))

    def count(self, kind: str) -> int:
        """How many objects of a kind are known."""
        return len(self._objects[kind])

    def select(self, kind: str, index: str, value: str) -> tuple[KubeObject, ...]:
        """The objects that an index files under a value, in the order of their names."""
        places = sorted(self._found.get((kind, index, value), ()))
        return tuple(self._objects[kind][place] for place in places)

    def is_listed(self, kind: str) -> bool:
        """Whether a whole list of this kind was ever taken: before that, absence means nothing."""
        return kind in self._listed

    def revision(self, kind: str) -> int:
        """Another number whenever any object of the kind changed."""
        return self._revisions[kind]

    def list_age(self, kind: str) -> float:
        """Seconds since the last whole list of a kind."""
        return self._clock() - self._listed[kind]

    def put(self, obj: KubeObject) -> Change | None:
        """An object as a watch, a list or an answer showed it; None when nothing new was learnt."""
        kind, namespace, name = place_of(obj)
        uid = obj["metadata"].get("uid", "")
        known = self._objects[kind].get((namespace, name))
        seen = version_of(known) if known is not None else -1
        if _is_ended(obj) and version_of(obj) >= seen:
            # The answer to the patch that took the last finalizer off bears the version from before that patch.
            return self.remove(obj)
        # A version as old as the burial is a late event. A younger one is an object whose labels fit the watch again.
        if version_of(obj) <= max(self._gone.get(uid, -1), seen):
            return None
        if known is None or known["metadata"].get("uid") != uid:
            if not self._admits(obj):
                return None
            if known is not None:
                self._bury(known, version_of(obj))
        self._store((namespace, name), known, _lean(obj))
        return Change(kind, known, self._objects[kind][namespace, name])

    def remove(self, obj: KubeObject) -> Change | None:
        """An object that is gone: this UID, not whatever has its name by now."""
        kind, namespace, name = place_of(obj)
        self._bury(obj, version_of(obj))
        known = self._objects[kind].get((namespace, name))
        if known is None or known["metadata"].get("uid") != obj["metadata"].get("uid"):
            return None
        self._store((namespace, name), known, None)
        return Change(kind, known, None)

    def replace_all(self, kind: str, items: Sequence[KubeObject], resource_version: str) -> list[Change]:
        """A whole list of a kind: everything that it says and we did not know, what vanished included.

        An object that we know in a version younger than the list was made after it, and its absence says nothing.
        """
        listed_at = int(resource_version) if resource_version.isdigit() else 0
        there = {(item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in items}
        changes = [change for item in items if (change := self.put(item)) is not None]
        for place, known in list(self._objects[kind].items()):
            if place not in there and version_of(known) <= listed_at:
                self._bury(known, listed_at)
                self._store(place, known, None)
                changes.append(Change(kind, known, None))
        self._listed[kind] = self._clock()
        return changes

    def _store(self, place: tuple[str, str], before: KubeObject | None, after: KubeObject | None) -> None:
        known = before if before is not None else after
        assert known is not None  # noqa: S101 - one of the two is always there
        kind = known["kind"]
        self._revisions[kind] += 1
        for name, index in self._indices.get(kind, {}).items():
            for value in index(before) if before is not None else ():
                filed = self._found[kind, name, value]
                del filed[place]
                if not filed:
                    del self._found[kind, name, value]
            for value in index(after) if after is not None else ():
                self._found.setdefault((kind, name, value), {})[place] = None
        if after is None:
            del self._objects[kind][place]
        else:
            self._objects[kind][place] = after
        self.on_change(Change(kind, before, after))

    def _bury(self, obj: KubeObject, version: int) -> None:
        uid = obj["metadata"].get("uid", "")
        self._gone[uid] = max(version, self._gone.get(uid, -1))
        self._gone.move_to_end(uid)
        while len(self._gone) > MOST_TOMBSTONES:
            self._gone.popitem(last=False)


def _is_ended(obj: KubeObject) -> bool:
    """An answer to the patch that took the last finalizer off: the object is gone although we were shown it."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers") and obj["kind"] != "Pod"


def _lean(obj: KubeObject) -> KubeObject:
    """Without managedFields, which are half of an object and nobody's business here; of a node, what pods depend on."""
    metadata: Mapping[str, Any] = obj["metadata"]
    if "managedFields" in metadata:
        obj = {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    return _lean_node(obj) if obj["kind"] == "Node" else obj


def _lean_node(node: KubeObject) -> KubeObject:
    """Addresses, whether it takes pods, and whether its kubelet is heard of; without the times of its heartbeats."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = [
        {"type": "Ready", "status": each.get("status")}
        for each in status.get("conditions") or ()
        if each.get("type") == "Ready"
    ]
    return {
        **{key: node[key] for key in ("apiVersion", "kind", "metadata")},
        "spec": {key: spec[key] for key in ("unschedulable", "taints") if spec.get(key)},
        "status": {"addresses": status.get("addresses") or [], "conditions": ready},
    }
