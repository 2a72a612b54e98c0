"""A manifest on its way into a store, and one on its way out: a bounded temporary file, small ones in memory.

Records come before the header is known, and the header comes first in a manifest, so room for it is left in front.
"""

import hashlib
import io
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import BinaryIO

from sandhold.snapshots import mac
from sandhold.snapshots.mac import MacKeys
from sandhold.snapshots.manifest import LONGEST_HEADER, Header, ManifestError, parse_header
from sandhold.snapshots.records import TooLargeError
from sandhold.snapshots.stores.protocol import ObjectContent

LARGEST_MANIFEST = 1024**3
_IN_MEMORY = 1024**2
_CHUNK = 1024**2


@dataclass(frozen=True, slots=True)
class Finished:
    """A whole manifest as it is to be stored."""

    content: BinaryIO
    digest: str
    size: int


class ManifestDraft:
    """Takes the records of one archive, then its header, and signs the whole."""

    def __init__(self, largest: int = LARGEST_MANIFEST) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - lives as long as the draft
        self._file.write(bytes(LONGEST_HEADER))
        self._room = largest
        self._end = LONGEST_HEADER

    def append(self, piece: bytes) -> None:
        """Add records, whole or in pieces."""
        self._room -= len(piece)
        if self._room < 0:
            raise TooLargeError("the records of the workspace's files are larger than any manifest may be")
        self._file.write(piece)
        self._end += len(piece)

    def finish(self, header: Header, keys: MacKeys) -> Finished:
        """The manifest, signed by the current key. Once more with another header: what was finished before is void."""
        line = header.encode()
        signature, digest = keys.start(), hashlib.sha256(line)
        signature.update(line)
        self._file.seek(LONGEST_HEADER)
        left = self._end - LONGEST_HEADER
        while left and (chunk := self._file.read(min(_CHUNK, left))):
            signature.update(chunk)
            digest.update(chunk)
            left -= len(chunk)
        last = signature.line()
        digest.update(last)
        self._file.write(last)
        start, size = LONGEST_HEADER - len(line), self._file.tell() - LONGEST_HEADER + len(line)
        self._file.seek(start)
        self._file.write(line)
        return Finished(io.BufferedReader(_Window(self._file, start, size)), digest.hexdigest(), size)

    def close(self) -> None:
        """Give the temporary file back."""
        self._file.close()


class LoadedManifest:
    """A manifest that was read whole and whose MAC was found good, in this order: nothing of it was believed before."""

    def __init__(self, content: ObjectContent, keys: MacKeys) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - lives as long as the manifest
        try:
            self.size, self.digest = self._fetch(content)
            end = self._verify(keys)
            self._file.seek(0)
            line = self._file.readline(LONGEST_HEADER + 1)
            self.header = parse_header(line)
            self._records = (len(line), end)
        except BaseException:
            self._file.close()
            raise

    def records(self) -> BinaryIO:
        """The lines between header and MAC."""
        start, end = self._records
        return io.BufferedReader(_Window(self._file, start, end - start), _CHUNK)

    def close(self) -> None:
        """Give the temporary file back."""
        self._file.close()

    def _fetch(self, content: ObjectContent) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > LARGEST_MANIFEST + LONGEST_HEADER + mac.LONGEST_LINE:
                raise ManifestError("the manifest is larger than any of ours")
            digest.update(chunk)
            self._file.write(chunk)
        return size, digest.hexdigest()

    def _verify(self, keys: MacKeys) -> int:
        """Check the last line against everything before it; returns where it begins."""
        tail_start = max(0, self.size - mac.LONGEST_LINE)
        self._file.seek(tail_start)
        tail = self._file.read()
        begin = tail[:-1].rfind(b"\n") + 1
        if not tail.endswith(b"\n") or begin == 0:
            raise ManifestError("the manifest's last line is not a MAC: it was cut off or altered")
        last, end = tail[begin:], tail_start + begin
        signature = keys.start(mac.key_id_of(last))
        self._file.seek(0)
        left = end
        while left and (chunk := self._file.read(min(_CHUNK, left))):
            signature.update(chunk)
            left -= len(chunk)
        signature.check(last)
        return end


class _Window(io.RawIOBase):
    """A part of a file, as a file: what a client library may rewind when it tries again."""

    def __init__(self, file: "SpooledTemporaryFile[bytes]", start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        self._file.seek(self._start + self._at)
        data = self._file.read(wanted)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at
