"""Sending one archive to a keeper: manifest and layers, each checked against what the MAC vouches for.

The manifest is read whole and verified before a byte of it goes out. A layer goes out while it is hashed, for it may be
larger than any memory; the keeper hears `end` only if every digest was right, and writes its marker only after that.
"""

import hashlib
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO

from sandhold.mover import metrics
from sandhold.mover.grant import Grant
from sandhold.mover.line import Line
from sandhold.mover.outcome import InvalidSnapshotError, LayerGoneError, SupersededError
from sandhold.mover.stores import OpenStore
from sandhold.mover.threads import Threads
from sandhold.mover.wire import LIMIT_DATA
from sandhold.snapshots.catalogue import ManifestMissingError
from sandhold.snapshots.draft import LoadedManifest
from sandhold.snapshots.manifest import Generation, Kind, Layer
from sandhold.snapshots.stores.protocol import ObjectContent, ObjectMissingError

_CHUNK = 4 * LIMIT_DATA


@dataclass(frozen=True, slots=True)
class ArchiveSender:
    """One archive to one keeper."""

    line: Line
    grant: Grant
    store: OpenStore
    threads: Threads

    async def send(self) -> int:
        """Send it all; returns how many bytes of files it holds."""
        if self.grant.source is None:
            raise InvalidSnapshotError("the grant names no source")
        source = Generation(self.grant.source.epoch, self.grant.source.sequence)
        try:
            return await self._send(source)
        except (ManifestMissingError, LayerGoneError) as error:
            # A pod of the source's epoch that goes on, against all odds, may have pruned it meanwhile.
            later = (await self.threads.run(self.store.catalogue(self.grant.slot).listed)).successor(source)
            if later is None:
                raise
            raise SupersededError(
                f"{error}; {later} is newer, and what a restore gets when it is asked for anew"
            ) from error

    async def _send(self, source: Generation) -> int:
        loaded = await self.threads.run(self.store.catalogue(self.grant.slot).load, source)
        with closing(loaded):
            if loaded.header.kind is not Kind.ARCHIVE:
                raise InvalidSnapshotError("the grant's source is a fence, which has no content")
            await self.line.say({"type": "manifest", "header": loaded.header.as_json()})
            await self._send_records(loaded)
            for layer in loaded.header.layers:
                await self._send_layer(layer)
            await self.line.say(
                {
                    "type": "end",
                    "layers": [{"sha256": layer.sha256, "bytes": layer.stored_bytes} for layer in loaded.header.layers],
                }
            )
        return loaded.header.content_bytes

    async def _send_records(self, loaded: LoadedManifest) -> None:
        records: BinaryIO = loaded.records()
        while chunk := await self.threads.run(records.read, LIMIT_DATA):
            await self.line.send(chunk)
        await self.line.end_part()

    async def _send_layer(self, layer: Layer) -> None:
        key = self.store.place(self.grant.slot).layer_key(layer.key)
        try:
            content = await self.threads.run(self.store.objects.read, key)
        except ObjectMissingError as error:
            raise LayerGoneError(f"store {self.grant.store}: the layer {key} is gone") from error
        try:
            if content.size != layer.stored_bytes:
                raise InvalidSnapshotError(
                    f"store {self.grant.store}: the layer {key} has {content.size} bytes, not {layer.stored_bytes}"
                )
            await self._stream(content, layer, key)
        finally:
            content.close()
        await self.line.end_part()

    async def _stream(self, content: ObjectContent, layer: Layer, key: str) -> None:
        digest = hashlib.sha256()

        def read() -> bytes:
            chunk = content.read(_CHUNK)
            digest.update(chunk)
            return chunk

        while chunk := await self.threads.run(read):
            metrics.BYTES.labels("out").inc(len(chunk))
            await self.line.send(chunk)
        if digest.hexdigest() != layer.sha256:
            raise InvalidSnapshotError(f"store {self.grant.store}: the layer {key} was altered: another SHA-256")
