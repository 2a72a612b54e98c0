"""Receiving one archive: a layer and its records come from a keeper, and a manifest exists at the end, or nothing does.

Order is everything here: the layer is stored, then verified, then the manifest is written, under the next free number
of its epoch, then read back, and only then the keeper hears `stored`. Memory is bounded by the layer's parts, disk by
the draft of the manifest.

Which verification, and why. By default the SHA-256 that the server checked each part against on arrival: it covers the
way there and what the server keeps the object under, at no further traffic. Where the server shows none, or the store
says `verify: ReadBack`, every byte is read back and hashed: twice the traffic, and all the proof such a store can give.
"""

import asyncio
import hashlib
from contextlib import closing

from sandhold.mover import metrics
from sandhold.mover.grant import Grant
from sandhold.mover.layer import LayerUpload, layer_ceiling
from sandhold.mover.line import Line
from sandhold.mover.messages import Done, parse
from sandhold.mover.outcome import ProducerError
from sandhold.mover.stores import OpenStore
from sandhold.mover.threads import Threads
from sandhold.mover.wire import FrameError, Kind
from sandhold.snapshots.catalogue import OvertakenError, StaleGenerationError
from sandhold.snapshots.draft import ManifestDraft
from sandhold.snapshots.manifest import Generation, Layer
from sandhold.snapshots.records import RecordChecker
from sandhold.snapshots.stores.protocol import ObjectMissingError, StoredObject, StoreUnavailableError
from sandhold.snapshots.stores.settings import Verify
from sandhold.snapshots.summary import Summary

_READ = 1024 * 1024
_RECORDS_AT_ONCE = 64 * 1024


class ArchiveReceiver:
    """One archive from one keeper."""

    def __init__(self, line: Line, grant: Grant, store: OpenStore, threads: Threads) -> None:
        self._line = line
        self._grant = grant
        self._store = store
        self._threads = threads
        self._catalogue = store.catalogue(grant.slot)
        ceiling = layer_ceiling(grant.max_bytes, grant.max_files)
        self._layer = LayerUpload(threads, store.objects, store.place(grant.slot), ceiling)
        self._records = RecordChecker(max_bytes=grant.max_bytes, max_files=grant.max_files)

    async def receive(self, begun_after: Generation) -> Summary:
        """Take it all; returns once the archive is stored, verified and readable.

        `begun_after` was the newest of the epoch before the keeper began.
        """
        with closing(ManifestDraft()) as draft:
            try:
                await self._take_layer()
                await self._take_records(draft)
                layer = await self._finish_layer(parse(Done, (await self._line.receive()).message()))
            except BaseException:
                self._threads.clean_up(self._layer.abandon())
                raise
            # From here on nothing is cleaned up: a manifest whose write got no answer may exist, and name the layer.
            summary = await self._commit(layer, draft, begun_after)
        if summary.header.layers != (layer,):
            # The same pod had stored the same bytes before, under another name.
            self._threads.clean_up(self._layer.abandon())
        return summary

    async def _take_layer(self) -> None:
        while True:
            frame = await self._line.receive()
            if frame.kind is Kind.END:
                return
            if frame.kind is not Kind.DATA:
                raise FrameError("a message came within a layer")
            metrics.BYTES.labels("in").inc(len(frame.payload))
            await self._layer.feed(frame.payload)

    async def _take_records(self, draft: ManifestDraft) -> None:
        held = bytearray()
        while True:
            frame = await self._line.receive()
            if frame.kind is Kind.JSON:
                raise FrameError("a message came within the records")
            held += frame.payload
            if len(held) >= _RECORDS_AT_ONCE or frame.kind is Kind.END:
                await self._threads.run(self._judge_records, bytes(held), draft)
                held.clear()
            if frame.kind is Kind.END:
                self._records.finish()
                return

    def _judge_records(self, piece: bytes, draft: ManifestDraft) -> None:
        self._records.feed(piece)
        draft.append(piece)

    async def _finish_layer(self, done: Done) -> Layer:
        """Compare what came with what the keeper says it sent, then what is stored with what came."""
        if done.layer_bytes != self._layer.size:
            raise ProducerError(f"{self._layer.size} bytes of the layer came, {done.layer_bytes} were announced")
        if (done.files, done.bytes) != (self._records.files, self._records.content_bytes):
            raise ProducerError(
                f"the records hold {self._records.files} files of {self._records.content_bytes} bytes, "
                f"{done.files} of {done.bytes} were announced"
            )
        try:
            digest, stored = await self._layer.finish()
            if digest != done.layer_sha256:
                raise ProducerError("the layer came with another SHA-256 than was announced")
            await self._verify(digest, stored)
        except ObjectMissingError as error:
            raise StoreUnavailableError(f"store {self._grant.store} does not show a layer just stored there") from error
        return Layer(self._layer.name, digest, self._layer.size, done.raw_bytes)

    async def _verify(self, digest: str, stored: StoredObject) -> None:
        if stored.size != self._layer.size:
            raise StoreUnavailableError(
                f"store {self._grant.store} keeps {stored.size} bytes of a layer of {self._layer.size}"
            )
        if self._store.config.verify is Verify.CHECKSUM and stored.digest_was_checked:
            return
        if await self._threads.run(self._digest_in_store) != digest:
            raise StoreUnavailableError(f"store {self._grant.store} gives a layer back with other bytes than were sent")

    def _digest_in_store(self) -> str:
        digest = hashlib.sha256()
        with closing(self._store.objects.read(self._layer.key)) as content:
            while chunk := content.read(_READ):
                digest.update(chunk)
        return digest.hexdigest()

    async def _commit(self, layer: Layer, draft: ManifestDraft, begun_after: Generation) -> Summary:
        grant = self._grant
        header = self._catalogue.archive_header(
            Generation(grant.epoch, grant.sequence),
            final=grant.final,
            parent=Generation(grant.source.epoch, grant.source.sequence) if grant.source else None,
            pod_uid=grant.pod_uid,
            layers=(layer,),
            files=self._records.files,
            content_bytes=self._records.content_bytes,
        )
        # Waited for even when cancelled: the thread goes on, and the draft must not be closed under it.
        commit = asyncio.create_task(self._threads.run(self._catalogue.commit, header, draft, begun_after))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            await asyncio.wait([commit])
            raise
        except (OvertakenError, StaleGenerationError):
            self._threads.clean_up(self._layer.abandon())
            raise
