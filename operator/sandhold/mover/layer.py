"""A layer on its way into a store: cut into parts, hashed in order, sent in parallel, within bounded memory.

One part is being filled, one hashed and two sent: when the store is slow, `feed` waits, and with it the connection.
Nothing exists in the store before `finish`, and after `abandon` nothing stays.
"""

import asyncio
import hashlib
import secrets

from sandhold.mover.threads import Threads
from sandhold.snapshots.manifest import Place, layer_name
from sandhold.snapshots.records import TooLargeError
from sandhold.snapshots.stores.protocol import ObjectStore, StoredObject, Upload

PART = 8 * 1024 * 1024
_LARGEST_PART = 64 * 1024 * 1024
_MOST_PARTS = 9_500
_SENDING = 2


def part_size(ceiling: int) -> int:
    """Equal parts, since some look-alikes of S3 demand it, and large enough for a layer that reaches its ceiling."""
    needed = -(-ceiling // _MOST_PARTS)
    return min(_LARGEST_PART, max(PART, needed))


def layer_ceiling(max_bytes: int, max_files: int) -> int:
    """How large a layer may get: content that does not compress, with tar's headers, which do."""
    return max_bytes + max_bytes // 50 + 1024 * max_files + 1024 * 1024


class LayerUpload:
    """One layer."""

    def __init__(self, threads: Threads, store: ObjectStore, place: Place, ceiling: int) -> None:
        self.name = layer_name(secrets.token_hex(16))
        self.key = place.layer_key(self.name)
        self.size = 0
        self._threads = threads
        self._store = store
        self._ceiling = ceiling
        self._part_size = part_size(ceiling)
        self._pieces: list[bytes] = []
        self._held = 0
        self._digest = hashlib.sha256()
        self._hashing: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[Upload] | None = None
        self._finishing: asyncio.Task[StoredObject] | None = None
        self._sent = 0

    async def feed(self, piece: bytes) -> None:
        """Take the next bytes; waits while the store is behind."""
        self.size += len(piece)
        if self.size > self._ceiling:
            raise TooLargeError(f"the archive has more than {self._ceiling} bytes; raise spec.snapshot.maxBytes")
        self._pieces.append(piece)
        self._held += len(piece)
        while self._held >= self._part_size:
            await self._send(self._cut())

    def _cut(self) -> bytes:
        """The next part. Pieces are kept as they came and copied once: copying is most of what this thread has to do.

        Whatever is beyond a part came with the last piece, since the part was not full before it.
        """
        last = self._pieces.pop()
        beyond = self._held - self._part_size
        part = b"".join((*self._pieces, last[: len(last) - beyond]))
        self._pieces, self._held = [last[len(last) - beyond :]], beyond
        return part

    async def finish(self) -> tuple[str, StoredObject]:
        """Make the layer exist; its SHA-256, and what the store says about it."""
        rest = b"".join(self._pieces)
        if self._opening is None:
            await self._threads.run(self._digest.update, rest)
            finishing = self._threads.run(self._store.write, self.key, rest)
        else:
            if rest:
                await self._send(rest)
            while self._sending:
                await self._wait_for_one()
            finishing = self._threads.run((await asyncio.shield(self._opening)).complete)
        self._finishing = asyncio.create_task(finishing)
        stored = await asyncio.shield(self._finishing)
        if self._hashing is not None:
            await asyncio.shield(self._hashing)
        return self._digest.hexdigest(), stored

    async def abandon(self) -> None:
        """Leave nothing behind: neither parts nor an object that no manifest will name.

        What runs in a thread runs on even if its caller was cancelled, and an abort that overtakes a part would leave
        that part behind; so everything is waited for. How it went was told to whoever asked for it.
        """
        running = [task for task in (self._hashing, self._opening, self._finishing, *self._sending) if task is not None]
        await asyncio.gather(*running, return_exceptions=True)
        if self._opening is not None and self._opening.exception() is None:
            await self._threads.run(self._opening.result().abort)
        if self._finishing is not None:
            await self._threads.run(self._store.delete, self.key)

    async def _send(self, part: bytes) -> None:
        if self._opening is None:
            self._opening = asyncio.create_task(self._threads.run(self._store.upload, self.key))
        upload = await asyncio.shield(self._opening)
        if self._hashing is not None:
            await asyncio.shield(self._hashing)
        self._hashing = asyncio.create_task(self._threads.run(self._digest.update, part))
        while len(self._sending) >= _SENDING:
            await self._wait_for_one()
        self._sent += 1
        self._sending.add(asyncio.create_task(self._threads.run(upload.send, self._sent, part)))

    async def _wait_for_one(self) -> None:
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        for sent in done:
            sent.result()
