"""Records: what a keeper writes passes, anything else does not, and totals are the keeper's."""

import json
from typing import Any

import pytest

from sandhold.snapshots.records import FileType, RecordChecker, RecordError, TooLargeError, check_path, parse_record

FILE: dict[str, Any] = {
    "path": "a/b",
    "type": "file",
    "mode": 420,
    "size": 12,
    "mtimeNs": "1700000000123456789",
    "sha256": "0" * 64,
}
FOLDER: dict[str, Any] = {"path": "a", "type": "dir", "mode": 0o1777, "mtimeNs": "-1"}
LINK: dict[str, Any] = {"path": "l", "type": "symlink", "mode": 0o777, "mtimeNs": "0", "target": "../../etc/passwd"}


def line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()


def checker(max_bytes: int = 1000, max_files: int = 10) -> RecordChecker:
    return RecordChecker(max_bytes=max_bytes, max_files=max_files)


def test_what_a_keeper_writes_passes() -> None:
    record = parse_record(line({**FILE, "link": 3}))
    assert (record.path, record.type, record.size, record.link) == (b"a/b", FileType.FILE, 12, 3)
    assert parse_record(line(FOLDER)).type is FileType.DIRECTORY
    assert parse_record(line(LINK)).type is FileType.SYMLINK
    raw = {key: value for key, value in FILE.items() if key != "path"}
    assert parse_record(line({**raw, "pathBase64": "YS//"})).path == b"a/\xff"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "fifo"},
        {"type": None},
        {"mode": 0o10000},
        {"mode": -1},
        {"mode": True},
        {"mode": "420"},
        {"size": -1},
        {"size": 1.0},
        {"size": 2**63},
        {"size": None},
        {"mtimeNs": 5},
        {"mtimeNs": "1.5"},
        {"mtimeNs": "01"},
        {"mtimeNs": "9" * 40},
        {"mtimeNs": "1\n"},
        {"sha256": "0" * 63},
        {"sha256": "G" * 64},
        {"sha256": None},
        {"link": -1},
        {"path": ""},
        {"path": 7},
        {"path": "a\x00b"},
        {"pathBase64": "YQ=="},
        {"target": "x"},
        {"uid": 0},
    ],
)
def test_a_record_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        parse_record(line({**FILE, **change}))


@pytest.mark.parametrize(
    "record",
    [
        {**FOLDER, "size": 1},
        {**FOLDER, "sha256": "0" * 64},
        {**FOLDER, "link": 1},
        {**FOLDER, "target": "x"},
        {**LINK, "target": ""},
        {**LINK, "target": "x" * 5000},
        {**LINK, "target": "a\x00"},
        {key: value for key, value in LINK.items() if key != "target"},
        {key: value for key, value in FILE.items() if key != "size"},
        {key: value for key, value in FILE.items() if key != "path"},
    ],
)
def test_a_record_of_mixed_kinds_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        parse_record(line(record))


@pytest.mark.parametrize("path", [b"/a", b"a/", b"a//b", b".", b"..", b"a/..", b"./a", b"a/./b", b"x" * 256, b""])
def test_a_path_that_is_not_relative_and_normalised_is_refused(path: bytes) -> None:
    with pytest.raises(RecordError):
        check_path(path)


@pytest.mark.parametrize("path", [b"a", b"...", b"..a/b..", b"\xff\xfe", b" ", b"-", b"x" * 255, b"a/" * 10_000 + b"a"])
def test_any_other_name_passes(path: bytes) -> None:
    check_path(path)


@pytest.mark.parametrize("text", [b"", b"[]", b"nope", b"\xff", b"[" * 200_000, b"x" * 300_000])
def test_what_is_no_record_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(RecordError):
        parse_record(text)


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_totals_do_not_depend_on_how_lines_are_cut(size: int) -> None:
    text = b"".join(line(record) + b"\n" for record in (FOLDER, FILE, LINK))
    judge = checker()
    for start in range(0, len(text), size):
        judge.feed(text[start : start + size])
    judge.finish()
    assert (judge.files, judge.content_bytes) == (3, 12)


def test_a_group_of_hard_links_counts_its_bytes_once() -> None:
    judge = checker()
    for record in ({**FILE, "link": 1}, {**FILE, "link": 2}, {**FILE, "link": 1}, FILE, FILE):
        judge.feed(line(record) + b"\n")
    assert (judge.files, judge.content_bytes) == (5, 48)
    with pytest.raises(RecordError, match="link group"):
        judge.feed(line({**FILE, "link": 4}) + b"\n")


def test_what_is_more_than_granted_is_too_large() -> None:
    with pytest.raises(TooLargeError, match=r"more than 11 bytes; raise spec\.snapshot\.maxBytes"):
        checker(max_bytes=11).feed(line(FILE) + b"\n")
    with pytest.raises(TooLargeError, match=r"more than 1 files; raise spec\.snapshot\.maxFiles"):
        checker(max_files=1).feed(line(FOLDER) + b"\n" + line(FILE) + b"\n")


def test_a_line_without_an_end_is_refused_and_not_kept_for_ever() -> None:
    judge = checker()
    judge.feed(line(FILE))
    with pytest.raises(RecordError, match="no end of line"):
        judge.finish()
    judge = checker()
    for _ in range(26):
        judge.feed(b"x" * 10_000)
    with pytest.raises(RecordError, match="longer"):
        judge.feed(b"x" * 10_000)
