"""The MAC that makes a manifest ours: HMAC-SHA256 over every byte before its own line, by one of several keys.

Pure. Several keys are accepted, so that they can be rotated and archives restored elsewhere; one is current and signs.
What a MAC binds together (installation, slot, epoch, sequence, layers) stands in the header that it covers.
"""

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandhold.errors import InvalidError
from sandhold.snapshots.manifest import ManifestError

LONGEST_LINE = 512
_SHORTEST_KEY = 16
_MOST_KEYS = 64
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class MacKeysError(InvalidError):
    """The file with the MAC keys is not usable. The message never holds any of its content."""


@dataclass(frozen=True, slots=True)
class MacKeys:
    """The keys of one store."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def start(self, key_id: str | None = None) -> "Mac":
        """A MAC to feed, by the current key or by the one that a manifest names."""
        chosen = self.current if key_id is None else key_id
        key = self.keys.get(chosen)
        if key is None:
            raise ManifestError("the manifest is signed by a MAC key that this installation does not have")
        return Mac(chosen, hmac.new(key, digestmod="sha256"))


class Mac:
    """A MAC in the making."""

    def __init__(self, key_id: str, state: hmac.HMAC) -> None:
        self._key_id = key_id
        self._state = state

    def update(self, data: bytes) -> None:
        """Cover these bytes too."""
        self._state.update(data)

    def line(self) -> bytes:
        """The last line of the manifest, with its newline. There is exactly one right spelling of it."""
        fields = {"mac": {"keyId": self._key_id, "value": self._state.hexdigest()}}
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def check(self, line: bytes) -> None:
        """Refuse a last line that is not byte for byte the one that we would write."""
        if not hmac.compare_digest(self.line(), line):
            raise ManifestError("the manifest's MAC does not match: it was altered, or signed by somebody else")


def key_id_of(line: bytes) -> str:
    """Which key a manifest's last line says it was signed by. Believe nothing else of that line before `check`."""
    try:
        key_id = json.loads(line.decode())["mac"]["keyId"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ManifestError("the manifest's last line is not a MAC: it was cut off or altered") from error
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise ManifestError("the manifest's MAC names no key")
    return key_id


def parse_mac_keys(text: str) -> MacKeys:
    """The content of `mac-keys.json`."""
    try:
        fields = json.loads(text)
        current, keys = str(fields["current"]), {name: _key(name, value) for name, value in fields["keys"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Not chained: a parser's message may quote what it read.
        raise MacKeysError(
            'mac-keys.json must hold {"current": id, "keys": {id: hexadecimal key of at least 16 bytes}}'
        ) from None
    if not 1 <= len(keys) <= _MOST_KEYS or current not in keys:
        raise MacKeysError("mac-keys.json must hold 1 to 64 keys, among them the one that 'current' names")
    return MacKeys(current, keys)


def _key(name: str, value: Any) -> bytes:
    key = bytes.fromhex(value)
    if len(key) < _SHORTEST_KEY or not _KEY_ID.fullmatch(name):
        raise ValueError("a short key or a strange id")
    return key
