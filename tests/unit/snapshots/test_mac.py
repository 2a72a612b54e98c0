"""MAC keys and lines: one spelling, several keys, no key in a message."""

import pytest

from sandhold.snapshots.mac import MacKeysError, key_id_of, parse_mac_keys
from sandhold.snapshots.manifest import ManifestError

TEXT = '{"current": "k2", "keys": {"k1": "' + "11" * 32 + '", "k2": "' + "22" * 16 + '"}}'


def test_the_current_key_signs_and_every_key_verifies() -> None:
    keys = parse_mac_keys(TEXT)
    for key_id in ("k1", "k2"):
        mac = keys.start(key_id)
        mac.update(b"content")
        line = mac.line()
        assert key_id_of(line) == key_id
        mac.check(line)
    assert key_id_of(keys.start().line()) == "k2"


def test_two_keys_make_two_macs() -> None:
    keys = parse_mac_keys(TEXT)
    assert keys.start("k1").line()[20:] != keys.start("k2").line()[20:]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ManifestError, match="does not have"):
        parse_mac_keys(TEXT).start("k3")


@pytest.mark.parametrize(
    "line", [b"", b"{}", b'{"mac":{}}', b'{"mac":{"keyId":5}}', b'{"mac":{"keyId":"a b"}}', b"\xff"]
)
def test_a_line_that_names_no_key_is_refused(line: bytes) -> None:
    with pytest.raises(ManifestError):
        key_id_of(line)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"current": "k1"}',
        '{"current": "k1", "keys": []}',
        '{"current": "k1", "keys": {"k1": "5ec7e7"}}',
        '{"current": "k1", "keys": {"k1": "not hexadecimal 5ec7e7"}}',
        '{"current": "k1", "keys": {"k1": 5}}',
        '{"current": ["k1"], "keys": {"k1": "' + "5ec7e7" * 10 + '"}}',
        '{"current": "k2", "keys": {"k1": "' + "5ec7e7" * 10 + '"}}',
        '{"current": "k 1", "keys": {"k 1": "' + "5ec7e7" * 10 + '"}}',
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(MacKeysError) as caught:
        parse_mac_keys(text)
    assert "5ec7e7" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_are_not_printed() -> None:
    assert "22" * 16 not in repr(parse_mac_keys(TEXT))
    assert repr(bytes.fromhex("22" * 16)) not in repr(parse_mac_keys(TEXT))
