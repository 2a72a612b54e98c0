"""The single writes of a plan: create, apply, delete, patch; each idempotent, each answer put into the cache.

Every method says whether it changed anything, so that a settled world costs no request and starts no further pass.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandhold.cluster.answers import NamespaceEndingError
from sandhold.cluster.cache import Cache, version_of
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import described, reference_to
from sandhold.cluster.memory import Ending, Memory, Recent
from sandhold.cluster.ours import is_what_we_made
from sandhold.desired.plan import Delete, Reference
from sandhold.desired.world import KubeObject
from sandhold.errors import ConflictError, NotFoundError, SandholdError, UnavailableError
from sandhold.names import short_hash

DELETE_REPEAT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Applied:
    intent: str
    uid: str
    version: int


class Writes:
    """Writes through the door, and remembers just enough not to repeat itself."""

    def __init__(self, door: Door, cache: Cache, memory: Memory, clock: Callable[[], float] = time.monotonic) -> None:
        self._door = door
        self._cache = cache
        self._memory = memory
        self._clock = clock
        self._applied: Recent[Reference, _Applied] = Recent()
        self._deleted: Recent[tuple[str, int | None], float] = Recent()
        self._status: Recent[str, _Applied] = Recent()

    async def create(self, document: KubeObject) -> bool:
        """POST. What an earlier pass made is success; anything else under the name becomes a suspect."""
        reference = reference_to(document)
        known = self._cache.find(reference)
        if known is not None and is_what_we_made(known, document):
            return False
        try:
            self._cache.put(await self._door.create(document))
        except NamespaceEndingError:
            self._memory.ending.put(reference.namespace, Ending(self._clock()))
            raise
        except ConflictError as conflict:
            await self._accept_existing(reference, document, conflict)
        return True

    async def _accept_existing(self, reference: Reference, document: KubeObject, conflict: ConflictError) -> None:
        try:
            found = await self._door.get(reference)
        except NotFoundError:
            raise conflict from None
        if not is_what_we_made(found, document):
            self._memory.suspects.put(reference, found["metadata"].get("uid", ""))
            raise ConflictError(f"{described(reference)} exists and is not ours; it was not touched") from conflict
        self._cache.put(found)

    async def apply(self, document: KubeObject) -> bool:
        """Server-side apply, unless the same intent was applied and still stands there.

        An object that the watch does not show is read first: an apply would take a foreign one over.
        """
        reference = reference_to(document)
        intent = short_hash(json.dumps(document, sort_keys=True, default=str), length=32)
        known = self._cache.find(reference) or await self._read(reference)
        if known is not None:
            if not is_what_we_made(known, document):
                self._memory.suspects.put(reference, known["metadata"].get("uid", ""))
                raise ConflictError(f"{described(reference)} exists and is not ours; it was not touched")
            if self._stands(reference, document, intent, known):
                return False
            # With the UID in it, the server refuses to apply onto a later object of the same name.
            document = {**document, "metadata": {**document["metadata"], "uid": known["metadata"]["uid"]}}
        try:
            made = await self._door.apply(document)
        except NamespaceEndingError:
            self._memory.ending.put(reference.namespace, Ending(self._clock()))
            raise
        self._cache.put(made)
        self._applied.put(reference, _Applied(intent, made["metadata"].get("uid", ""), version_of(made)))
        return known is None or version_of(made) != version_of(known)

    async def _read(self, reference: Reference) -> KubeObject | None:
        try:
            return await self._door.get(reference)
        except NotFoundError:
            return None

    def _stands(self, reference: Reference, document: KubeObject, intent: str, known: KubeObject) -> bool:
        applied = self._applied.get(reference)
        if applied is None or applied.intent != intent or applied.uid != known["metadata"].get("uid"):
            return False
        return applied.version == version_of(known) or contains(known, document)

    async def delete(self, wanted: Delete) -> bool:
        """DELETE by UID. Gone already, or taken by a younger object, is success; asked a moment ago is enough.

        What became of the object is looked at in the same pass: until the watch tells that a pod is going, a later pass
        would take it for one whose gate may be opened.
        """
        key = (wanted.uid, wanted.grace_seconds)
        asked = self._deleted.get(key)
        if asked is not None and self._clock() - asked < DELETE_REPEAT_SECONDS:
            return False
        try:
            await self._door.delete(wanted.reference, wanted.uid, grace_seconds=wanted.grace_seconds)
        except (NotFoundError, ConflictError) as error:
            known = self._cache.find(wanted.reference)
            found = await self._refresh(wanted.reference)
            if isinstance(error, ConflictError) and _uid(found) == wanted.uid:
                raise  # No other object under its name: it is still there, and was not deleted.
            return _uid(known) == wanted.uid
        except UnavailableError:
            with suppress(SandholdError):  # the answer may be lost and the deletion not
                await self._refresh(wanted.reference)
            raise
        await self._refresh(wanted.reference)
        self._deleted.put(key, self._clock())
        return True

    async def _refresh(self, reference: Reference) -> KubeObject | None:
        """The cache may still show what the server says is gone: look, and believe what is seen."""
        known = self._cache.find(reference)
        try:
            found = await self._door.get(reference)
        except NotFoundError:
            if known is not None:
                self._cache.remove(known)
            return None
        self._cache.put(found)
        return found

    async def patch(
        self, subject: KubeObject, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> KubeObject:
        """JSON patch that applies to the object as it was seen and to no other version of it."""
        metadata = subject["metadata"]
        tests = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        ]
        reference = reference_to(subject)
        try:
            patched = await self._door.json_patch(reference, [*tests, *operations], subresource)
        except ConflictError:
            await self._refresh(reference)
            raise
        self._cache.put(patched)
        return patched

    async def status(self, subject: KubeObject, status: Mapping[str, Any]) -> KubeObject | None:
        """The whole status, if it is another one than the object has; None when nothing had to be written."""
        text = json.dumps(status, sort_keys=True)
        if subject.get("status", {}) == json.loads(text):
            return None
        uid, intent = subject["metadata"]["uid"], short_hash(text, length=32)
        written = self._status.get(uid)
        if written == _Applied(intent, uid, version_of(subject)):
            # The server keeps something else than we write (a field of another version): writing again changes nothing.
            return None
        patched = await self.patch(subject, [{"op": "add", "path": "/status", "value": status}], "status")
        self._status.put(uid, _Applied(intent, uid, version_of(patched)))
        return patched


def _uid(obj: KubeObject | None) -> str | None:
    return None if obj is None else obj["metadata"].get("uid")


def contains(live: Any, intent: Any) -> bool:
    """Whether an object already says everything that an intent says; the server's own additions do not matter."""
    if isinstance(intent, Mapping):
        return isinstance(live, Mapping) and all(key in live and contains(live[key], intent[key]) for key in intent)
    if isinstance(intent, list | tuple):
        if not isinstance(live, list) or len(live) != len(intent):
            return False
        return all(contains(one, other) for one, other in zip(live, intent, strict=True))
    return bool(live == intent)
