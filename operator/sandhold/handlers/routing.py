"""From what changed to the keys that must be looked at. It knows who depends on whom, and nothing of what is decided.

Waking a key too often costs a millisecond; forgetting one costs until the next list. What many objects share (a policy,
a runtime class, the mover's address) wakes all that depend on it, and only when the part they depend on changed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandhold import metrics, names
from sandhold.cluster.cache import Cache, Change
from sandhold.cluster.kinds import (
    ACCOUNT,
    BUDGET,
    ENDPOINT_SLICE,
    NODE,
    POD,
    POLICY,
    RUNTIME_CLASS,
    SANDBOX,
    SESSION,
    SNAPSHOT,
)
from sandhold.cluster.memory import Memory
from sandhold.cluster.reading import labels_of, owner_of, sandbox_of
from sandhold.desired.world import KubeObject
from sandhold.workqueue import Key, WorkQueue

COUNT_DELAY = 30.0
"""An AgentSandbox counts its sessions in status: a write for each start would be one write too many, so a burst of them
is one pass, and the count is at most so much behind."""
RELEASE_DELAY = 0.5
"""One that is being deleted waits for them to go, and lets go soon after the last."""


class Router:
    """An `EventSink` that feeds the cache and wakes keys."""

    def __init__(
        self, cache: Cache, queue: WorkQueue, memory: Memory, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._queue = queue
        self._memory = memory
        self.on_addresses: Callable[[], None] = lambda: None
        """Told when a mover, the API server or a node is elsewhere."""
        self.on_relisted: Callable[[str], None] = lambda _: None
        """Told the kind of each object that came from the watch library's own list."""
        self._routes: Mapping[str, Callable[[Change], None]] = {
            SESSION: self._session,
            SANDBOX: self._sandbox,
            POD: self._pod,
            POLICY: self._child,
            ACCOUNT: self._child,
            BUDGET: self._budget,
            SNAPSHOT: self._snapshot,
            RUNTIME_CLASS: self._class,
            ENDPOINT_SLICE: self._address,
            NODE: self._node,
        }
        self.on_event: Callable[[str], None] = lambda _: None
        """Told the kind of each event."""
        cache.on_change = self.route

    def changed(self, obj: KubeObject, *, is_listed: bool) -> None:
        """An object as a watch showed it."""
        self._heard(obj["kind"])
        if is_listed:
            self.on_relisted(obj["kind"])
        elif obj["kind"] == SESSION and not obj.get("status"):
            self._note_new(obj)
        self._cache.put(obj)

    def deleted(self, obj: KubeObject) -> None:
        """An object that a watch showed last."""
        self._heard(obj["kind"])
        self._cache.remove(obj)

    def _heard(self, kind: str) -> None:
        metrics.WATCH_EVENTS.labels(kind).inc()
        self.on_event(kind)

    def keeper_changed(self, pod_uid: str) -> None:
        """A mover said something new of a pod's keeper."""
        for pod in self._cache.select(POD, "uid", pod_uid):
            self._wake_session_of(pod)

    def wake_all(self, *kinds: str) -> None:
        """Something that everything of these kinds depends on changed."""
        for kind in kinds or (SANDBOX, SESSION):
            for obj in self._cache.all(kind):
                self._queue.add(_key(obj))

    def route(self, change: Change) -> None:
        """Wake whatever depends on a changed object."""
        self._routes[change.kind](change)

    def _class(self, change: Change) -> None:
        if _differs(change, "handler"):
            self.wake_all()

    def _address(self, change: Change) -> None:
        """A mover, the API server, a node: only the part that others depend on counts."""
        if _differs(change, "endpoints", "ports", "status.addresses"):
            self.on_addresses()

    def _node(self, change: Change) -> None:
        """A node: its addresses are everybody's; whether it takes and keeps pods is for those on it, or waiting."""
        self._address(change)
        if not _differs(change, "spec", "status.conditions", "metadata.labels"):
            return
        name = change.object["metadata"]["name"]
        for pod in self._cache.all(POD):
            if (pod.get("spec") or {}).get("nodeName") == name:
                self._wake_session_of(pod)
        for session in self._cache.all(SESSION):
            status = session.get("status") or {}
            if status.get("nodeName") == name or status.get("stopReason") == "NodeCordoned":
                self._queue.add(_key(session))

    def _session(self, change: Change) -> None:
        self._queue.add(_key(change.object))
        if change.before is None or change.after is None:
            self._wake_sandbox(sandbox_of(change.object))

    def _sandbox(self, change: Change) -> None:
        self._queue.add(_key(change.object))
        if _differs(change, "metadata.generation", "metadata.deletionTimestamp"):
            self._wake_sessions_of(change.object)

    def _pod(self, change: Change) -> None:
        self._wake_session_of(change.object)
        if change.before is None or change.after is None:
            for sandbox in self._sandboxes_labelled(change.object):
                self._recount(sandbox)

    def _child(self, change: Change) -> None:
        """A policy or account: its AgentSandbox mends it, and sessions wait for it."""
        for each in self._sandboxes_of(change.object):
            self._queue.add(_key(each))
            if _differs(change, "spec", "metadata.deletionTimestamp"):
                self._wake_sessions_of(each)

    def _budget(self, change: Change) -> None:
        """Its status follows every pod, and nobody here reads that; sessions do not wait for it."""
        if _differs(change, "spec", "metadata.labels", "metadata.annotations", "metadata.deletionTimestamp"):
            for each in self._sandboxes_of(change.object):
                self._queue.add(_key(each))

    def _snapshot(self, change: Change) -> None:
        snapshot = change.object
        reference = (snapshot.get("spec") or {}).get("sessionRef") or {}
        session = self._cache.get(SESSION, snapshot["metadata"].get("namespace", ""), reference.get("name", ""))
        if session is not None:
            self._queue.add(_key(session))

    def _wake_session_of(self, pod: KubeObject) -> None:
        for session in self._cache.select(SESSION, "uid", labels_of(pod).get(names.LABEL_SESSION_UID, "")):
            if session["metadata"].get("namespace", "") == pod["metadata"].get("namespace", ""):
                self._queue.add(_key(session))

    def _wake_sessions_of(self, sandbox: KubeObject) -> None:
        metadata = sandbox["metadata"]
        for session in self._cache.select(SESSION, "sandbox", f"{metadata.get('namespace', '')}/{metadata['name']}"):
            self._queue.add(_key(session))

    def _wake_sandbox(self, place: str) -> None:
        namespace, _, name = place.partition("/")
        sandbox = self._cache.get(SANDBOX, namespace, name)
        if sandbox is not None:
            self._recount(sandbox)

    def _recount(self, sandbox: KubeObject) -> None:
        is_going = sandbox["metadata"].get("deletionTimestamp") is not None
        self._queue.add_after(_key(sandbox), RELEASE_DELAY if is_going else COUNT_DELAY)

    def _sandboxes_of(self, child: KubeObject) -> Iterator[KubeObject]:
        """Whom a policy, account or budget was made for; annotation and label are believed within its namespace."""
        owner, namespace = owner_of(child), child["metadata"].get("namespace", "")
        named = self._cache.get(SANDBOX, namespace, owner[2]) if owner is not None and owner[1] == namespace else None
        if named is not None:
            yield named
        else:
            yield from self._sandboxes_labelled(child)

    def _sandboxes_labelled(self, obj: KubeObject) -> Iterator[KubeObject]:
        label = labels_of(obj).get(names.LABEL_SANDBOX, "")
        yield from self._cache.select(SANDBOX, "label", f"{obj['metadata'].get('namespace', '')}/{label}")

    def _note_new(self, session: KubeObject) -> None:
        metadata = session["metadata"]
        if self._cache.get(SESSION, metadata.get("namespace", ""), metadata["name"]) is None:
            self._memory.seen.put(metadata["uid"], self._clock())


def _key(obj: KubeObject) -> Key:
    return Key(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _differs(change: Change, *paths: str) -> bool:
    """Whether the object came, went, or has another value at one of the paths."""
    if change.before is None or change.after is None:
        return True
    return any(_at(change.before, path) != _at(change.after, path) for path in paths)


def _at(obj: KubeObject, path: str) -> Any:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
