"""A verified manifest without its records, and a bounded memory of those that were verified."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from sandhold.snapshots.manifest import Header, generation_as_json

_REMEMBERED = 4096


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
