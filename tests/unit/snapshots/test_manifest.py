"""Headers, keys and the choice of a head."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sandhold.snapshots.manifest import (
    Generation,
    Header,
    Kind,
    Layer,
    ManifestError,
    Place,
    check_place,
    layer_name,
    parse_header,
)

PLACE = Place("pre/", "inst", "slot")
HEADER = Header(
    installation="inst",
    slot="slot",
    generation=Generation(3, 1),
    kind=Kind.ARCHIVE,
    final=True,
    parent=Generation(2, 1),
    layers=(Layer(layer_name("0" * 32), "a" * 64, 10, 20),),
    files=4,
    content_bytes=8,
    created_at="2026-01-02T03:04:05.678+00:00",
    pod_uid="pod",
)
FENCE = replace(HEADER, generation=Generation(3, 0), kind=Kind.FENCE, layers=(), files=0, content_bytes=0)


@pytest.mark.parametrize("header", [HEADER, FENCE, replace(FENCE, parent=None)])
def test_a_header_is_read_as_it_was_written(header: Header) -> None:
    assert parse_header(header.encode()) == header


def test_it_is_spelled_as_the_protocol_says() -> None:
    assert HEADER.encode() == (
        b'{"version":1,"installation":"inst","slot":"slot","epoch":3,"sequence":1,"kind":"Archive","final":true,'
        b'"parent":{"epoch":2,"sequence":1},"layers":[{"key":"layers/00000000000000000000000000000000.tar.zst",'
        b'"sha256":"' + b"a" * 64 + b'","bytes":10,"rawBytes":20}],"files":4,"bytes":8,'
        b'"createdAt":"2026-01-02T03:04:05.678+00:00","podUid":"pod"}\n'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": "1"},
        {"installation": ""},
        {"epoch": -1},
        {"epoch": True},
        {"epoch": 10_000_000_000},
        {"kind": "Snapshot"},
        {"kind": "Fence"},
        {"final": 1},
        {"parent": 5},
        {"layers": []},
        {"layers": [{"key": "../x", "sha256": "a" * 64, "bytes": 1, "rawBytes": 1}]},
        {"layers": [{"key": layer_name("0" * 32), "sha256": "A" * 64, "bytes": 1, "rawBytes": 1}]},
        {"layers": [{}]},
        {"files": "4"},
        {"createdAt": "yesterday"},
        {"createdAt": "2026-01-02T03:04:05"},
        {"podUid": None},
    ],
)
def test_another_header_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ManifestError):
        parse_header(json.dumps({**HEADER.as_json(), **change}).encode())


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b"\xff", b"[" * 50_000, b" " * 70_000])
def test_what_is_no_header_is_refused(line: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_header(line)


@pytest.mark.parametrize(
    ("place", "generation", "sentence"),
    [
        (replace(PLACE, installation="other"), Generation(3, 1), "another installation"),
        (replace(PLACE, slot="other"), Generation(3, 1), "another slot"),
        (PLACE, Generation(3, 2), "another epoch or sequence"),
        (PLACE, Generation(4, 1), "another epoch or sequence"),
    ],
)
def test_a_manifest_counts_only_in_its_place(place: Place, generation: Generation, sentence: str) -> None:
    check_place(HEADER, PLACE, Generation(3, 1))
    with pytest.raises(ManifestError, match=sentence):
        check_place(HEADER, place, generation)


def test_keys_are_where_the_protocol_puts_them() -> None:
    assert PLACE.manifest_key(Generation(3, 1)) == "pre/inst/slot/0000000003-0000000001"
    assert PLACE.layer_key(layer_name("ab" * 16)) == f"pre/inst/slot/layers/{'ab' * 16}.tar.zst"


def test_digits_of_other_scripts_are_no_digits() -> None:
    assert Generation.from_name("\u0660" * 10 + "-" + "\u0660" * 10) is None


def test_a_layers_name_is_random_and_nothing_else() -> None:
    for wrong in ("", "..", "0" * 31, "0" * 33, "G" * 32):
        with pytest.raises(ManifestError):
            layer_name(wrong)
