"""What an object store must be able to do, and the few ways in which it can fail.

Blocking by design: the mover calls it from a bounded pool of threads. Nothing here knows of manifests or slots.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from sandhold.errors import ConflictError, NotFoundError, UnavailableError


class StoreUnavailableError(UnavailableError):
    """No usable answer. The message names store, bucket and what to do, and no credential."""


class ObjectMissingError(NotFoundError):
    """The store works and says that there is no such object."""


class ObjectExistsError(ConflictError):
    """The key is taken, and was to be taken only if it was free."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """A key as a listing shows it."""

    key: str
    etag: str
    size: int
    modified: datetime
    """By the store's own clock."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What the store says about an object after it was written."""

    size: int
    digest_was_checked: bool
    """The server has compared every byte with a SHA-256 of ours, and shows that it keeps the object under it."""


class ObjectContent(Protocol):
    """An object that is being read."""

    size: int
    etag: str

    def read(self, size: int) -> bytes:
        """At most so many bytes; nothing at the end."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Upload(Protocol):
    """An object that is being written in parts and does not exist before it is complete."""

    def send(self, number: int, part: bytes) -> None:
        """Store one part, numbered from 1. Parts may be sent in parallel."""
        ...

    def complete(self) -> StoredObject:
        """Make the object exist, and ask the store what it has."""
        ...

    def abort(self) -> None:
        """Give the parts back. Does not raise."""
        ...


class ObjectStore(Protocol):
    """One place for objects."""

    name: str

    def list_folder(self, prefix: str) -> list[ListedObject]:
        """The objects directly under a prefix that ends in a slash, not those in folders below it."""
        ...

    def read(self, key: str) -> ObjectContent:
        """Begin to read an object."""
        ...

    def write_new(self, key: str, content: BinaryIO) -> None:
        """Write an object from a seekable file, unless the key is taken."""
        ...

    def write(self, key: str, content: bytes) -> StoredObject:
        """Write a small object in one go, under a key that nobody else uses."""
        ...

    def upload(self, key: str) -> Upload:
        """Begin to write an object in parts."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; one that is absent is deleted already."""
        ...
