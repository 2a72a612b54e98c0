"""What lies in one slot of a store: its head, its fences, and how a manifest gets in and out.

Blocking; the mover calls it from a thread. It decides with `manifest.py` and `listing.py` and does with a store.
Nothing is remembered but manifests that were verified, under their key and ETag, so two movers need not know of each
other.
"""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sandhold.errors import ConflictError, NotFoundError
from sandhold.snapshots.draft import LoadedManifest, ManifestDraft
from sandhold.snapshots.listing import Listing
from sandhold.snapshots.mac import MacKeys
from sandhold.snapshots.manifest import HIGHEST_NUMBER, Generation, Header, Kind, ManifestError, Place, check_place
from sandhold.snapshots.stores.protocol import ObjectExistsError, ObjectMissingError, ObjectStore, StoreUnavailableError
from sandhold.snapshots.summary import Summary, VerifiedManifests

_TRIES = 16
"""Numbers that one archive tries: each try that fails is an archive that another mover has stored meanwhile."""
_LOOKS = 3
"""At a head that is pruned between its listing and its reading."""


class StaleGenerationError(ConflictError):
    """Somebody else went on with this slot: what we hold is not the newest and never becomes it."""


class OvertakenError(ConflictError):
    """The same pod has stored another archive since this one was begun: which of the two is older nobody can tell."""


class ManifestMissingError(NotFoundError):
    """A manifest that another one builds on is not in the store."""


class Catalogue:
    """One slot in one store."""

    def __init__(self, store: ObjectStore, place: Place, keys: MacKeys, verified: VerifiedManifests) -> None:
        self._store = store
        self._place = place
        self._keys = keys
        self._verified = verified

    def head(self) -> tuple[Summary | None, Summary | None]:
        """The highest manifest, and the content that a start gets: itself, or what the fence was put over."""
        head, listed = self._highest()
        return head, self._content(head, listed)

    def fence(self, epoch: int, parent: Generation | None, pod_uid: str) -> Summary:
        """Put a fence, unless it stands already. What has a lower epoch can never be the head from now on.

        It goes over the content of now or over nothing: what was stored since the workspace was restored would be
        hidden for ever.
        """
        generation = Generation(epoch, 0)
        self._refuse_hiding(epoch, parent)
        header = self._header(generation, Kind.FENCE, parent=parent, pod_uid=pod_uid)
        with closing(ManifestDraft()) as draft:
            try:
                self._store.write_new(self._place.manifest_key(generation), draft.finish(header, self._keys).content)
            except ObjectExistsError as error:
                if self.summary(generation).header.parent != parent:
                    raise StaleGenerationError(
                        f"epoch {epoch} of slot {self._place.slot} is fenced with another parent; take a new epoch"
                    ) from error
        # Looked at after the write: of two that race, the lower one sees the higher one here.
        head, listed = self._highest()
        self._refuse_stale(head, epoch)
        if head is None:
            raise ManifestMissingError(f"the fence of epoch {epoch} was written and is not listed")
        if parent is not None:
            self._refuse_pruned(parent, listed)
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

    def newest(self, epoch: int) -> Generation:
        """The highest archive of an epoch, or its fence where there is none: what a transfer that begins follows."""
        return max(self.listed().archives(epoch), default=Generation(epoch, 0))

    def commit(self, header: Header, draft: ManifestDraft, begun_after: Generation) -> Summary:
        """Make an archive exist, now that its layers are stored and verified; read it back.

        The header's sequence is the lowest that it may get. It gets the next one that is free in its epoch, unless the
        newest archive there is this one already: an answer was lost, and the archive was made once more. Nor does it
        get one above an archive that its own pod stored since `begun_after` was the newest: a keeper makes one at a
        time, so one of the two was given up, and an older state must never be the newest.
        """
        epoch, number = header.generation.epoch, header.generation.sequence
        for _ in range(_TRIES):
            listed = self.listed()
            newest = listed.archives(epoch)[-1:]
            if newest:
                found = self._readable(newest[0], listed)
                if found is not None and _is_same(found.header, header):
                    return found
                if found is not None and newest[0] > begun_after:
                    _refuse_overtaken(found.header, header)
                number = max(number, newest[0].sequence + 1)
            if number > HIGHEST_NUMBER:
                raise StaleGenerationError(
                    f"epoch {epoch} of slot {self._place.slot} has no number left; take a new one"
                )
            stored = self._store_as(Generation(epoch, number), header, draft)
            if stored is not None:
                return stored
            number += 1
        raise StoreUnavailableError(
            f"store {self._store.name}: {_TRIES} numbers in epoch {epoch} of slot {self._place.slot} were taken by "
            "other archives meanwhile; it is tried again"
        )

    def archive_header(
        self, lowest: Generation, *, final: bool, parent: Generation | None, pod_uid: str, **content: Any
    ) -> Header:
        """The header of an archive: `content` holds layers, files and content_bytes."""
        return self._header(lowest, Kind.ARCHIVE, final=final, parent=parent, pod_uid=pod_uid, **content)

    def listed(self) -> Listing:
        """The manifests of this slot as the store lists them now."""
        return Listing(self._place, self._store.list_folder(self._place.folder))

    def summary(self, generation: Generation, listed: Listing | None = None) -> Summary:
        """A verified manifest; one that is listed unchanged is not read again."""
        key = self._place.manifest_key(generation)
        etag = None if listed is None else listed.etag(generation)
        known = None if etag is None else self._verified.get(key, etag)
        if known is not None:
            return known
        with closing(self.load(generation)) as loaded:
            return Summary(loaded.header, key, loaded.digest, loaded.size)

    def remove(self, generation: Generation) -> None:
        """Make an archive not exist. Its layers are left behind."""
        self._store.delete(self._place.manifest_key(generation))

    def remove_layer(self, name: str) -> None:
        """Delete a layer that no manifest names any more."""
        self._store.delete(self._place.layer_key(name))

    def _store_as(self, generation: Generation, header: Header, draft: ManifestDraft) -> Summary | None:
        """Write the archive under one number; None if that is another archive's."""
        ours = replace(header, generation=generation)
        finished = draft.finish(ours, self._keys)
        key = self._place.manifest_key(generation)
        try:
            self._store.write_new(key, finished.content)
        except ObjectExistsError:
            found = self._readable(generation)
            if found is None or _is_same(found.header, ours):
                return found
            # A listing that is late does not show it, and the pod that stored it began it after this one all the same.
            _refuse_overtaken(found.header, ours)
            return None
        try:
            stored = self.summary(generation)
        except ManifestMissingError as error:
            raise StoreUnavailableError(f"store {self._store.name}: {key} was written and is not there") from error
        except ManifestError as error:
            # No verdict on the archive: it is whole where it came from, and gets another number when it is made anew.
            raise StoreUnavailableError(f"{error}; it was written a moment ago") from error
        if stored.digest != finished.digest:
            raise StoreUnavailableError(
                f"store {self._store.name}: {key} reads back with other bytes than were written"
            )
        return stored

    def _readable(self, generation: Generation, listed: Listing | None = None) -> Summary | None:
        """A manifest, or None if it cannot be ours: gone meanwhile, or not verified by any key of ours."""
        try:
            return self.summary(generation, listed)
        except (ManifestError, ManifestMissingError):
            return None

    def _highest(self) -> tuple[Summary | None, Listing]:
        for _ in range(_LOOKS):
            listed = self.listed()
            if listed.head is None:
                return None, listed
            try:
                return self.summary(listed.head, listed), listed
            except ManifestMissingError:
                continue
        raise StoreUnavailableError(
            f"store {self._store.name} lists manifests under {self._place.folder} that it does not show"
        )

    def _content(self, head: Summary | None, listed: Listing) -> Summary | None:
        """What a start gets. A fence's parent that was pruned has successors in its epoch: the newest stands for it."""
        if head is None or head.header.kind is Kind.ARCHIVE:
            return head
        parent = head.header.parent
        if parent is None:
            return None
        try:
            content = self.summary(parent, listed)
        except ManifestMissingError:
            later = listed.successor(parent)
            if later is None:
                raise
            content = self.summary(later, listed)
        if content.header.kind is not Kind.ARCHIVE:
            raise ManifestError(f"{head.key} is a fence over another fence; there is no content to start from")
        return content

    def _refuse_hiding(self, epoch: int, parent: Generation | None) -> None:
        head, listed = self._highest()
        self._refuse_stale(head, epoch)
        if head is None or head.header.generation.epoch == epoch:
            return
        content = self._content(head, listed)
        found = None if content is None else content.header.generation
        if found != parent:
            raise StaleGenerationError(
                f"slot {self._place.slot} has the content {found}, not {parent}; start again from what is there"
            )

    def _refuse_stale(self, head: Summary | None, epoch: int) -> None:
        if head is not None and head.header.generation.epoch > epoch:
            raise StaleGenerationError(
                f"slot {self._place.slot} is at epoch {head.header.generation.epoch} in store {self._store.name}, "
                f"which is ahead of {epoch}; take a higher epoch"
            )

    def _refuse_pruned(self, parent: Generation, listed: Listing) -> None:
        """A pod of the parent's epoch may have gone on, and its mover pruned the parent before this fence was there."""
        if parent in listed:
            return
        try:
            self.summary(parent)
        except ManifestMissingError as error:
            raise StaleGenerationError(
                f"the content {parent} of slot {self._place.slot} went while the fence was put over it: it was "
                "pruned for something newer, or removed; take a new epoch"
            ) from error

    def _header(self, generation: Generation, kind: Kind, **fields: Any) -> Header:
        return Header(
            installation=self._place.installation,
            slot=self._place.slot,
            generation=generation,
            kind=kind,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **{"final": False, "layers": (), "files": 0, "content_bytes": 0, **fields},
        )


def _refuse_overtaken(found: Header, ours: Header) -> None:
    if found.pod_uid == ours.pod_uid:
        raise OvertakenError(
            f"archive {found.generation} of slot {ours.slot} was stored by the same pod while this one was made, "
            "which is not stored above it; a keeper that still wants it makes it anew"
        )


def _is_same(found: Header, ours: Header) -> bool:
    """The same pod stored the same layers for the same purpose, whatever number that got."""
    return (
        found.kind is ours.kind
        and found.pod_uid == ours.pod_uid
        and found.final == ours.final
        and [layer.sha256 for layer in found.layers] == [layer.sha256 for layer in ours.layers]
        and (found.files, found.content_bytes) == (ours.files, ours.content_bytes)
    )
