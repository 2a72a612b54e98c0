"""The records of files in a manifest (PROTOCOL.md section 6), judged line by line: a pod wrote them, so all is suspect.

Pure. A checker keeps totals and nothing about single files, so that its memory does not grow with a workspace.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sandhold.errors import InvalidError

LONGEST_LINE = 256 * 1024
"""With its newline. Escapes make a path up to six times as long."""
_LONGEST_PATH = 32 * 1024
"""A tree may be deeper than any one path that the kernel takes."""
_LONGEST_TARGET = 4096
_LONGEST_PART = 255
_LARGEST_SIZE = 2**63 - 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NANOSECONDS = re.compile(r"-?(0|[1-9][0-9]{0,27})")
_FIELDS = frozenset(
    ("path", "pathBase64", "type", "mode", "size", "mtimeNs", "sha256", "link", "target", "targetBase64")
)


class RecordError(InvalidError):
    """A record that no keeper of ours writes. The message says what is wrong and never quotes the record."""


class TooLargeError(InvalidError):
    """The workspace has more files or bytes than its grant allows."""


class FileType(StrEnum):
    """What a record is about."""

    FILE = "file"
    DIRECTORY = "dir"
    SYMLINK = "symlink"


@dataclass(frozen=True, slots=True)
class Record:
    """One file, folder or link, as far as the mover has to know it."""

    path: bytes
    type: FileType
    size: int
    link: int


class RecordChecker:
    """Takes the records of one archive as they come, in pieces of any length, and keeps the totals."""

    def __init__(self, *, max_bytes: int, max_files: int) -> None:
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._rest = b""
        self._groups = 0
        self.files = 0
        """Records of every type."""
        self.content_bytes = 0
        """Sizes of files, a group of hard links counted once."""

    def feed(self, piece: bytes) -> None:
        """Judge every line that this piece completes."""
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = self._rest + lines[0]
            self._rest = rest
        else:
            self._rest += rest
        for line in lines:
            self._count(parse_record(line))
        if len(self._rest) >= LONGEST_LINE:
            raise RecordError("a record is longer than any of ours")

    def finish(self) -> None:
        """Say that nothing follows."""
        if self._rest:
            raise RecordError("the last record has no end of line")

    def _count(self, record: Record) -> None:
        self.files += 1
        if self.files > self._max_files:
            raise TooLargeError(f"the workspace has more than {self._max_files} files; raise spec.snapshot.maxFiles")
        # Groups are numbered in the order in which the walk meets them: a number that is not new was counted.
        if record.link > self._groups + 1:
            raise RecordError("a record's link group is not numbered in the order of the walk")
        if record.link == 0 or record.link > self._groups:
            self.content_bytes += record.size
        self._groups = max(self._groups, record.link)
        if self.content_bytes > self._max_bytes:
            raise TooLargeError(f"the workspace has more than {self._max_bytes} bytes; raise spec.snapshot.maxBytes")


def parse_record(line: bytes) -> Record:
    """One line without its newline."""
    if len(line) >= LONGEST_LINE:
        raise RecordError("a record is longer than any of ours")
    try:
        fields = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise RecordError("a record is not JSON in UTF-8") from error
    if not isinstance(fields, dict) or not fields.keys() <= _FIELDS:
        raise RecordError("a record is not an object with the fields of a record")
    return _record(fields)


def _record(fields: dict[str, Any]) -> Record:
    try:
        kind = FileType(str(fields.get("type")))
    except ValueError as error:
        raise RecordError("a record's type is none of file, dir, symlink") from error
    path = _name(fields, "path", "pathBase64")
    check_path(path)
    _natural(fields, "mode", 0o7777)
    mtime = fields.get("mtimeNs")
    if not isinstance(mtime, str) or not _NANOSECONDS.fullmatch(mtime):
        raise RecordError("a record's mtimeNs is not a decimal number in a text")
    _check_kind(kind, fields)
    return Record(path, kind, _natural(fields, "size", _LARGEST_SIZE), _natural(fields, "link", _LARGEST_SIZE))


def _check_kind(kind: FileType, fields: dict[str, Any]) -> None:
    if kind is FileType.FILE:
        digest = fields.get("sha256")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise RecordError("the record of a file has no SHA-256")
        if "size" not in fields:
            raise RecordError("the record of a file has no size")
    elif fields.keys() & {"size", "sha256", "link"}:
        raise RecordError("only the record of a file has a size, a digest and a link group")
    if kind is FileType.SYMLINK:
        # Where a link points is the agent's business: it is stored as it is and followed by nobody.
        target = _name(fields, "target", "targetBase64")
        if not target or len(target) > _LONGEST_TARGET or b"\0" in target:
            raise RecordError("the target of a symbolic link is empty, too long or holds a zero byte")
    elif fields.keys() & {"target", "targetBase64"}:
        raise RecordError("only the record of a symbolic link has a target")


def check_path(path: bytes) -> None:
    """Refuse a name that is not relative, normalised and within what file systems can hold."""
    if not path or len(path) > _LONGEST_PATH or b"\0" in path:
        raise RecordError("the path of a record is empty, too long or holds a zero byte")
    for part in path.split(b"/"):
        if part in {b"", b".", b".."}:
            raise RecordError("the path of a record is not relative and normalised")
        if len(part) > _LONGEST_PART:
            raise RecordError("a part of a record's path is longer than 255 bytes")


def _name(fields: dict[str, Any], plain: str, encoded: str) -> bytes:
    """A name that stands as text, or as base64 where it is not UTF-8."""
    if (plain in fields) == (encoded in fields):
        raise RecordError(f"a record has exactly one of {plain} and {encoded}")
    value = fields.get(plain, fields.get(encoded))
    if not isinstance(value, str):
        raise RecordError(f"a record's {plain} is not a text")
    try:
        return value.encode() if plain in fields else base64.b64decode(value, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise RecordError(f"a record's {plain} is not valid") from error


def _natural(fields: dict[str, Any], name: str, highest: int) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise RecordError(f"a record's {name} is not a number between 0 and {highest}")
    return value
