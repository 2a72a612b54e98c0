"""Grants: a signature over exactly what is granted, to exactly whom."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from sandhold.mover.grant import Grant, GrantError, Source, Verb, sign_grant, verify_grant

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
FIELDS: dict[str, Any] = {
    "installation": "i",
    "pod_uid": "pod",
    "slot": "slot",
    "epoch": 3,
    "verb": "archive",
    "store": "main",
    "sequence": 1,
    "final": True,
    "source": Source(epoch=2, sequence=1),
    "max_bytes": 10,
    "max_files": 5,
    "expires": 100,
}
GRANT = Grant.model_validate(FIELDS)


def check(text: str, **changes: Any) -> Grant:
    arguments = {"verb": Verb.ARCHIVE, "pod_uid": "pod", "now": 99.0, **changes}
    return verify_grant(text, [KEY.public_key()], **arguments)


def test_what_is_signed_is_what_is_verified() -> None:
    assert check(sign_grant(GRANT, KEY)) == GRANT


def test_it_travels_as_the_protocol_spells_it() -> None:
    payload = sign_grant(GRANT, KEY).partition(".")[0]
    assert base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)) == (
        b'{"v":1,"installation":"i","podUid":"pod","slot":"slot","epoch":3,"verb":"archive","store":"main",'
        b'"sequence":1,"final":true,"source":{"epoch":2,"sequence":1},"maxBytes":10,"maxFiles":5,"expires":100}'
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"verb": Verb.RESTORE}, "for archive, not for restore"),
        ({"pod_uid": "other"}, "for another pod"),
        ({"now": 100.0}, "has expired"),
    ],
)
def test_for_anything_else_it_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GrantError, match=sentence):
        check(sign_grant(GRANT, KEY), **changes)


def test_one_of_several_keys_is_enough_and_a_strangers_is_not() -> None:
    text = sign_grant(GRANT, OTHER)
    keys = [KEY.public_key(), OTHER.public_key()]
    assert verify_grant(text, keys, verb=Verb.ARCHIVE, pod_uid="pod", now=1) == GRANT
    with pytest.raises(GrantError, match="not signed by this installation"):
        check(text)


@pytest.mark.parametrize("text", ["", ".", "a.b", "..", "ä.ö", "a" * 10_000, "e30.e30", "e30=.e30="])
def test_any_other_text_is_refused_as_a_grant_error(text: str) -> None:
    with pytest.raises(GrantError):
        check(text)


def test_every_changed_character_is_noticed() -> None:
    text = sign_grant(GRANT, KEY)
    for position in range(len(text)):
        changed = text[:position] + ("A" if text[position] != "A" else "B") + text[position + 1 :]
        with pytest.raises(GrantError):
            check(changed)


@pytest.mark.parametrize(
    "fields",
    [
        {"slot": "../up"},
        {"slot": "a/b"},
        {"slot": ""},
        {"epoch": 0},
        {"epoch": 10_000_000_000},
        {"sequence": 0},
        {"verb": "restore", "source": None},
        {"verb": "delete"},
        {"max_bytes": 0},
        {"max_files": -1},
        {"v": 2},
    ],
)
def test_what_no_mover_would_act_on_cannot_be_granted(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Grant.model_validate({**FIELDS, **fields})
