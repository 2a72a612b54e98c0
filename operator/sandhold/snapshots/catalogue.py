"""What lies in one slot of a store: its head, its fences, and how a manifest gets in and out.

Blocking; the mover calls it from a thread. It decides with `manifest.py` and does with a store. Nothing is remembered
but manifests that were verified, under their key and ETag, so two movers need not know of each other.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandhold.errors import ConflictError, NotFoundError
from sandhold.snapshots.draft import LoadedManifest, ManifestDraft
from sandhold.snapshots.mac import MacKeys
from sandhold.snapshots.manifest import (
    Generation,
    Header,
    Kind,
    ManifestError,
    Place,
    check_place,
    generation_as_json,
)
from sandhold.snapshots.stores.protocol import ObjectExistsError, ObjectMissingError, ObjectStore, StoreUnavailableError

_REMEMBERED = 4096


class StaleGenerationError(ConflictError):
    """Somebody else went on with this slot: what we hold is not the newest and never becomes it."""


class ManifestMissingError(NotFoundError):
    """A manifest that another one builds on is not in the store."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A verified manifest without its records."""

    header: Header
    key: str
    digest: str
    size: int

    def as_json(self) -> dict[str, Any]:
        """M of PROTOCOL.md section 9."""
        header = self.header
        return {
            "epoch": header.generation.epoch,
            "sequence": header.generation.sequence,
            "kind": header.kind.value,
            "final": header.final,
            "parent": generation_as_json(header.parent),
            "key": self.key,
            "digest": self.digest,
            "bytes": header.content_bytes,
            "storedBytes": self.size + sum(layer.stored_bytes for layer in header.layers),
            "files": header.files,
            "createdAt": header.created_at,
        }


class VerifiedManifests:
    """Summaries of manifests that were verified with one set of keys. Bounded; shared by threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str], Summary] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, etag: str) -> Summary | None:
        """What was verified under this key and ETag."""
        with self._lock:
            return self._found.get((key, etag))

    def put(self, etag: str, summary: Summary) -> None:
        """Remember, and forget the oldest."""
        with self._lock:
            self._found[(summary.key, etag)] = summary
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)


class Catalogue:
    """One slot in one store."""

    def __init__(self, store: ObjectStore, place: Place, keys: MacKeys, verified: VerifiedManifests) -> None:
        self._store = store
        self._place = place
        self._keys = keys
        self._verified = verified

    def head(self) -> tuple[Summary | None, Summary | None]:
        """The highest manifest, and the content that a start gets: itself, or what the fence was put over."""
        head = self._highest()
        if head is None or head.header.kind is Kind.ARCHIVE:
            return head, head
        parent = head.header.parent
        if parent is None:
            return head, None
        content = self._summary(parent)
        if content.header.kind is not Kind.ARCHIVE:
            raise ManifestError(f"{head.key} is a fence over another fence; there is no content to start from")
        return head, content

    def fence(self, epoch: int, parent: Generation | None, pod_uid: str) -> Summary:
        """Put a fence, unless it stands already. What has a lower epoch can never be the head from now on.

        It goes over the content of now or over nothing: what was stored since the workspace was restored would be
        hidden for ever.
        """
        generation = Generation(epoch, 0)
        self._refuse_hiding(self._highest(), epoch, parent)
        header = self._header(generation, Kind.FENCE, parent=parent, pod_uid=pod_uid)
        with closing(ManifestDraft()) as draft:
            try:
                self._store.write_new(self._place.manifest_key(generation), draft.finish(header, self._keys).content)
            except ObjectExistsError as error:
                if self._summary(generation).header.parent != parent:
                    raise StaleGenerationError(
                        f"epoch {epoch} of slot {self._place.slot} is fenced with another parent; take a new epoch"
                    ) from error
        # Looked at after the write: of two that race, the lower one sees the higher one here.
        head = self._highest()
        self._refuse_stale(head, epoch)
        if head is None:
            raise ManifestMissingError(f"the fence of epoch {epoch} was written and is not listed")
        return head

    def load(self, generation: Generation) -> LoadedManifest:
        """A manifest with its records, verified. The caller closes it."""
        key = self._place.manifest_key(generation)
        try:
            content = self._store.read(key)
        except ObjectMissingError as error:
            raise ManifestMissingError(
                f"store {self._store.name}: the manifest {key} is gone; look for a lifecycle rule or a wrong prefix"
            ) from error
        with closing(content):
            try:
                loaded = LoadedManifest(content, self._keys)
            except ManifestError as error:
                raise ManifestError(f"store {self._store.name}: {key}: {error}") from error
        try:
            check_place(loaded.header, self._place, generation)
        except ManifestError as error:
            loaded.close()
            raise ManifestError(f"store {self._store.name}: {key}: {error}") from error
        self._verified.put(content.etag, Summary(loaded.header, key, loaded.digest, loaded.size))
        return loaded

    def commit(self, header: Header, draft: ManifestDraft) -> Summary:
        """Make an archive exist, now that its layers are stored and verified; read it back."""
        key = self._place.manifest_key(header.generation)
        finished = draft.finish(header, self._keys)
        try:
            self._store.write_new(key, finished.content)
        except ObjectExistsError as error:
            return self._taken(header, finished.digest, error)
        stored = self._summary(header.generation)
        if stored.digest != finished.digest:
            raise StoreUnavailableError(
                f"store {self._store.name}: {key} reads back with other bytes than were written"
            )
        return stored

    def archive_header(
        self, generation: Generation, *, final: bool, parent: Generation | None, pod_uid: str, **content: Any
    ) -> Header:
        """The header of an archive: `content` holds layers, files and content_bytes."""
        return self._header(generation, Kind.ARCHIVE, final=final, parent=parent, pod_uid=pod_uid, **content)

    def _taken(self, ours: Header, digest: str, error: ObjectExistsError) -> Summary:
        """What is under our key already. It is ours if an answer was lost, or if the same pod stored the same bytes."""
        try:
            found = self._summary(ours.generation)
        except ManifestError as other:
            raise StaleGenerationError(f"{other}; take a new epoch") from error
        if found.digest == digest or _same_content(found.header, ours):
            return found
        raise StaleGenerationError(
            f"{found.key} was stored by pod {found.header.pod_uid} with other content; it is kept as it is"
        ) from error

    def _highest(self) -> Summary | None:
        listed = {found.key: found.etag for found in self._store.list_folder(self._place.folder)}
        generation = self._place.choose_head(listed)
        return None if generation is None else self._summary(generation, listed)

    def _summary(self, generation: Generation, listed: Mapping[str, str] | None = None) -> Summary:
        key = self._place.manifest_key(generation)
        known = self._verified.get(key, listed[key]) if listed else None
        if known is not None:
            return known
        with closing(self.load(generation)) as loaded:
            return Summary(loaded.header, key, loaded.digest, loaded.size)

    def _refuse_hiding(self, head: Summary | None, epoch: int, parent: Generation | None) -> None:
        self._refuse_stale(head, epoch)
        if head is None or head.header.generation.epoch == epoch:
            return
        content = head.header.generation if head.header.kind is Kind.ARCHIVE else head.header.parent
        if content != parent:
            raise StaleGenerationError(
                f"slot {self._place.slot} has the content {content}, not {parent}; start again from what is there"
            )

    def _refuse_stale(self, head: Summary | None, epoch: int) -> None:
        if head is not None and head.header.generation.epoch > epoch:
            raise StaleGenerationError(
                f"slot {self._place.slot} is at epoch {head.header.generation.epoch} in store {self._store.name}, "
                f"which is ahead of {epoch}; take a higher epoch"
            )

    def _header(self, generation: Generation, kind: Kind, **fields: Any) -> Header:
        return Header(
            installation=self._place.installation,
            slot=self._place.slot,
            generation=generation,
            kind=kind,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **{"final": False, "layers": (), "files": 0, "content_bytes": 0, **fields},
        )


def _same_content(found: Header, ours: Header) -> bool:
    """The same pod stored the same layers before: the answer was lost, and the archive was made once more."""
    return (
        found.kind is ours.kind
        and found.pod_uid == ours.pod_uid
        and [layer.sha256 for layer in found.layers] == [layer.sha256 for layer in ours.layers]
        and (found.files, found.content_bytes) == (ours.files, ours.content_bytes)
    )
