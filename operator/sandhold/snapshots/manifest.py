"""The manifest of a snapshot as bytes, and the keys of a slot in a store (PROTOCOL.md section 8).

Pure: what a store or a pod says comes in as bytes and leaves as a value or a ManifestError. Records of files are judged
in `records.py`, the MAC is made and verified in `mac.py`, reading and writing is the business of `catalogue.py`.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from sandhold.errors import InvalidError

VERSION = 1
LONGEST_HEADER = 60 * 1024
"""A header travels in one frame of the protocol, with a little around it."""
MOST_LAYERS = 64

_NAME = re.compile(r"(\d{10})-(\d{10})")
_LAYER = re.compile(r"layers/[0-9a-f]{32}\.tar\.zst")
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
HIGHEST_NUMBER = 9_999_999_999
"""10 decimal digits stand in a manifest's key."""


class ManifestError(InvalidError):
    """These bytes are not a manifest, or not the one that belongs under this key."""


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """Epoch and sequence: which state of a slot; the order of two is the order of their keys."""

    epoch: int
    sequence: int

    @property
    def is_fence(self) -> bool:
        """Whether a fence stands here: archives are numbered from 1."""
        return self.sequence == 0

    def __str__(self) -> str:
        return f"{self.epoch:010d}-{self.sequence:010d}"

    def __post_init__(self) -> None:
        if not (0 <= self.epoch <= HIGHEST_NUMBER and 0 <= self.sequence <= HIGHEST_NUMBER):
            raise ManifestError("epoch and sequence have at most 10 digits")

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """The generation that the last part of a key spells, or None for any other name."""
        match = _NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2])) if match and name.isascii() else None


class Kind(StrEnum):
    """What a manifest is."""

    ARCHIVE = "Archive"
    FENCE = "Fence"


@dataclass(frozen=True, slots=True)
class Layer:
    """One object with a part of the workspace."""

    key: str
    sha256: str
    stored_bytes: int
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a manifest: everything but the files."""

    installation: str
    slot: str
    generation: Generation
    kind: Kind
    final: bool
    parent: Generation | None
    layers: tuple[Layer, ...]
    files: int
    content_bytes: int
    created_at: str
    pod_uid: str

    def encode(self) -> bytes:
        """The line, with its newline."""
        line = json.dumps(self.as_json(), separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
        if len(line) > LONGEST_HEADER:
            raise ManifestError(f"the header would have {len(line)} bytes; at most {LONGEST_HEADER} are allowed")
        return line

    def as_json(self) -> dict[str, Any]:
        """The header as PROTOCOL.md spells it."""
        return {
            "version": VERSION,
            "installation": self.installation,
            "slot": self.slot,
            "epoch": self.generation.epoch,
            "sequence": self.generation.sequence,
            "kind": self.kind.value,
            "final": self.final,
            "parent": generation_as_json(self.parent),
            "layers": [
                {"key": layer.key, "sha256": layer.sha256, "bytes": layer.stored_bytes, "rawBytes": layer.raw_bytes}
                for layer in self.layers
            ],
            "files": self.files,
            "bytes": self.content_bytes,
            "createdAt": self.created_at,
            "podUid": self.pod_uid,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """A slot in a store: all that a key is made of, given by the installation and a grant, never by a pod."""

    prefix: str
    installation: str
    slot: str

    @property
    def folder(self) -> str:
        """What every key of this slot starts with."""
        return f"{self.prefix}{self.installation}/{self.slot}/"

    def manifest_key(self, generation: Generation) -> str:
        """Key of a manifest."""
        return f"{self.folder}{generation}"

    def layer_key(self, layer: str) -> str:
        """Key of a layer, given its name in a manifest."""
        return f"{self.folder}{layer}"

    def generation_of(self, key: str) -> Generation | None:
        """The generation whose manifest a listed key names; None for what is no manifest's name (layers above all)."""
        return Generation.from_name(key.removeprefix(self.folder)) if key.startswith(self.folder) else None


def layer_name(random_hex: str) -> str:
    """Name of a layer within its slot: random, since its digest is known only when it is stored."""
    name = f"layers/{random_hex}.tar.zst"
    if not _LAYER.fullmatch(name):
        raise ManifestError("the name of a layer is made of 32 hexadecimal digits")
    return name


def generation_as_json(generation: Generation | None) -> dict[str, int] | None:
    """A generation as every message spells it."""
    return None if generation is None else {"epoch": generation.epoch, "sequence": generation.sequence}


def parse_header(line: bytes) -> Header:
    """The header in a manifest's first line."""
    if len(line) > LONGEST_HEADER:
        raise ManifestError("the manifest's header is longer than any of ours")
    try:
        fields = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ManifestError("the manifest's first line is not JSON") from error
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise ManifestError(f"the manifest's first line is not a header of version {VERSION}")
    try:
        return _header(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError("the manifest's header lacks a field or holds a wrong one") from error


def check_place(header: Header, place: Place, generation: Generation) -> None:
    """Refuse a manifest that was read from a key that it was not written for."""
    if header.installation != place.installation:
        raise ManifestError("the manifest belongs to another installation")
    if header.slot != place.slot:
        raise ManifestError("the manifest belongs to another slot")
    if header.generation != generation:
        raise ManifestError("the manifest belongs to another epoch or sequence")


def _header(fields: dict[str, Any]) -> Header:
    header = Header(
        installation=_text(fields["installation"]),
        slot=_text(fields["slot"]),
        generation=Generation(_number(fields["epoch"]), _number(fields["sequence"])),
        kind=Kind(fields["kind"]),
        final=_truth(fields["final"]),
        parent=_generation(fields["parent"]),
        layers=tuple(_layer(layer) for layer in _list(fields["layers"])),
        files=_number(fields["files"]),
        content_bytes=_number(fields["bytes"]),
        created_at=_moment(fields["createdAt"]),
        pod_uid=_text(fields["podUid"]),
    )
    is_fence = header.kind is Kind.FENCE
    if is_fence != (header.generation.sequence == 0) or is_fence != (not header.layers):
        raise ValueError("a fence has sequence 0 and no layers; an archive has both")
    return header


def _layer(fields: Any) -> Layer:
    layer = Layer(_text(fields["key"]), _text(fields["sha256"]), _number(fields["bytes"]), _number(fields["rawBytes"]))
    if not _LAYER.fullmatch(layer.key) or not _HEX_DIGEST.fullmatch(layer.sha256):
        raise ValueError("a layer's key or digest has another form")
    return layer


def _generation(fields: Any) -> Generation | None:
    return None if fields is None else Generation(_number(fields["epoch"]), _number(fields["sequence"]))


def _number(value: Any) -> int:
    # bool is an int in Python, never in JSON.
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("not a natural number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 1024:
        raise TypeError("not a text")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


def _moment(value: Any) -> str:
    text = _text(value)
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a zone")
    return text


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_LAYERS:
        raise TypeError("not a list of layers")
    return value
