"""Laws of manifests: what is written is read, what was touched is refused, keys sort as generations do."""

import base64
import io
import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandhold.snapshots.draft import LoadedManifest, ManifestDraft
from sandhold.snapshots.mac import MacKeys
from sandhold.snapshots.manifest import Generation, Header, Kind, Layer, ManifestError, Place, layer_name
from sandhold.snapshots.records import RecordChecker

KEYS = MacKeys("k1", {"k1": bytes(range(32)), "k0": bytes(32)})
numbers = st.integers(0, 9_999_999_999)
generations = st.builds(Generation, numbers, numbers)
parts = st.binary(min_size=1, max_size=20).filter(lambda part: part not in {b".", b".."} and not {0, 0x2F} & set(part))
paths = st.lists(parts, min_size=1, max_size=4).map(b"/".join)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    path = draw(paths)
    kind = draw(st.sampled_from(["file", "dir", "symlink"]))
    record: dict[str, Any] = {
        "type": kind,
        "mode": draw(st.integers(0, 0o7777)),
        "mtimeNs": str(draw(st.integers(-(2**63), 2**63))),
    }
    try:
        record["path"] = path.decode()
    except UnicodeDecodeError:
        record["pathBase64"] = base64.b64encode(path).decode()
    if kind == "file":
        record |= {"size": draw(st.integers(0, 1000)), "sha256": draw(digests)}
    if kind == "symlink":
        record["target"] = draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
    return record


headers = st.builds(
    Header,
    installation=st.just("inst"),
    slot=st.just("slot"),
    generation=st.builds(Generation, numbers, st.integers(1, 9_999_999_999)),
    kind=st.just(Kind.ARCHIVE),
    final=st.booleans(),
    parent=st.none() | generations,
    layers=st.lists(
        st.builds(
            Layer, st.text("0123456789abcdef", min_size=32, max_size=32).map(layer_name), digests, numbers, numbers
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    files=numbers,
    content_bytes=numbers,
    created_at=st.just("2026-01-02T03:04:05.678+00:00"),
    pod_uid=st.just("pod"),
)


class Content:
    """An object's content, in memory."""

    def __init__(self, data: bytes) -> None:
        self.size, self.etag = len(data), "etag"
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


def lines(of: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in of)


def finished_twice(header: Header, other: Header, text: bytes) -> bytes:
    """What comes of a draft that was finished for another number first."""
    with closing(ManifestDraft()) as draft:
        draft.append(text)
        draft.finish(other, KEYS)
        return draft.finish(header, KEYS).content.read()


def written(header: Header, text: bytes, keys: MacKeys = KEYS) -> bytes:
    with closing(ManifestDraft()) as draft:
        for start in range(0, len(text), 100):
            draft.append(text[start : start + 100])
        finished = draft.finish(header, keys)
        data = finished.content.read()
        assert len(data) == finished.size
        finished.content.seek(0)
        assert finished.content.read() == data
    return data


@given(headers, st.lists(records(), max_size=8))
def test_what_is_written_is_read(header: Header, of: list[dict[str, Any]]) -> None:
    text = lines(of)
    with closing(LoadedManifest(Content(written(header, text)), KEYS)) as loaded:
        assert loaded.header == header
        assert loaded.records().read() == text


@given(headers, headers, st.lists(records(), max_size=3))
def test_a_number_that_was_tried_before_leaves_no_trace(
    header: Header, other: Header, of: list[dict[str, Any]]
) -> None:
    assert finished_twice(header, other, lines(of)) == written(header, lines(of))


@given(st.lists(records(), max_size=8), st.integers(1, 200))
def test_what_a_keeper_writes_is_accepted_however_it_is_cut(of: list[dict[str, Any]], size: int) -> None:
    text, checker = lines(of), RecordChecker(max_bytes=10_000, max_files=8)
    for start in range(0, len(text), size):
        checker.feed(text[start : start + size])
    checker.finish()
    assert checker.files == len(of)
    assert checker.content_bytes == sum(record.get("size", 0) for record in of)


@given(headers, st.lists(records(), max_size=3), st.data())
def test_any_flipped_bit_is_refused(header: Header, of: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(written(header, lines(of)))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ManifestError):
        LoadedManifest(Content(bytes(whole)), KEYS)


def test_every_flipped_byte_of_one_manifest_is_refused() -> None:
    header = Header(
        installation="inst",
        slot="slot",
        generation=Generation(1, 0),
        kind=Kind.FENCE,
        final=False,
        parent=None,
        layers=(),
        files=0,
        content_bytes=0,
        created_at="2026-01-02T03:04:05+00:00",
        pod_uid="pod",
    )
    whole = written(header, b"")
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x20
        with pytest.raises(ManifestError):
            LoadedManifest(Content(bytes(changed)), KEYS)


@given(headers, st.lists(records(), max_size=3), st.data())
def test_a_manifest_that_was_cut_or_added_to_is_refused(
    header: Header, of: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = written(header, lines(of))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    added = whole + data.draw(st.binary(min_size=1, max_size=5))
    for changed in (cut, added):
        with pytest.raises(ManifestError):
            LoadedManifest(Content(changed), KEYS)


@given(headers)
def test_a_manifest_signed_by_somebody_else_is_refused(header: Header) -> None:
    stranger = MacKeys("k1", {"k1": b"x" * 32})
    with pytest.raises(ManifestError):
        LoadedManifest(Content(written(header, b"", stranger)), KEYS)


@given(st.lists(generations, max_size=10))
def test_keys_sort_by_epoch_and_then_by_sequence(of: list[Generation]) -> None:
    place = Place("", "inst", "slot")
    by_number = sorted(of, key=lambda one: (one.epoch, one.sequence))
    assert sorted(of) == by_number
    assert sorted(map(place.manifest_key, of)) == list(map(place.manifest_key, by_number))


@given(generations)
def test_a_name_says_its_generation(generation: Generation) -> None:
    assert Generation.from_name(str(generation)) == generation
