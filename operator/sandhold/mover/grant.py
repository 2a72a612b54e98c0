"""Grants: what a pod may do with which slot, signed by the operator and judged by whichever mover is shown one.

Pure: no clock, no files. The operator signs, the mover verifies and derives every key in the store from the answer, and
the keeper between them carries an opaque text (PROTOCOL.md section 7).
"""

import base64
import binascii
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from sandhold.errors import InvalidError

LONGEST_TEXT = 6 * 1024
"""A grant must fit into the first frame beside a token."""

# 10 decimal digits stand in a manifest's key.
HIGHEST_NUMBER = 9_999_999_999
Number = Annotated[int, Field(ge=0, le=HIGHEST_NUMBER)]
SlotName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")]
"""A slot is part of every key: nothing that a store or a file system reads as more than a name."""


class Verb(StrEnum):
    """What a grant allows."""

    ARCHIVE = "archive"
    RESTORE = "restore"


class GrantError(InvalidError):
    """The text is not a grant for this: the message says why, and never repeats the text."""


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, strict=True)


class Source(_Wire):
    """Which manifest a workspace comes from."""

    epoch: Number
    sequence: Number


class Grant(_Wire):
    """What the operator allows one pod to do."""

    v: Annotated[int, Field(ge=1, le=1)] = 1
    installation: Annotated[str, Field(min_length=1, max_length=253)]
    pod_uid: Annotated[str, Field(min_length=1, max_length=128)]
    slot: SlotName
    epoch: Annotated[int, Field(ge=1, le=HIGHEST_NUMBER)]
    verb: Annotated[Verb, Field(strict=False)]
    store: Annotated[str, Field(min_length=1, max_length=63)]
    sequence: Number = 0
    final: bool = False
    source: Source | None = None
    max_bytes: Annotated[int, Field(ge=1)]
    max_files: Annotated[int, Field(ge=1)]
    expires: int

    @model_validator(mode="after")
    def _complete(self) -> "Grant":
        if self.verb is Verb.RESTORE and self.source is None:
            raise ValueError("a grant to restore names its source")
        if self.verb is Verb.ARCHIVE and self.sequence < 1:
            raise ValueError("a grant to archive has a sequence of at least 1; 0 is the fence's")
        return self


def sign_grant(grant: Grant, key: Ed25519PrivateKey) -> str:
    """The grant as the text that a keeper shows."""
    payload = json.dumps(grant.model_dump(mode="json", by_alias=True), separators=(",", ":")).encode()
    return f"{_encode(payload)}.{_encode(key.sign(payload))}"


def verify_grant(text: str, keys: Iterable[Ed25519PublicKey], *, verb: Verb, pod_uid: str, now: float) -> Grant:
    """The grant in a text, signed by one of the keys, for this verb and this pod, and not expired.

    Nothing of the payload is read before its signature was found good.
    """
    grant = _parse(_signed_payload(text, keys))
    if grant.verb is not verb:
        raise GrantError(f"the grant is for {grant.verb}, not for {verb}")
    if grant.pod_uid != pod_uid:
        raise GrantError("the grant is for another pod")
    if grant.expires <= now:
        raise GrantError("the grant has expired")
    return grant


def _signed_payload(text: str, keys: Iterable[Ed25519PublicKey]) -> bytes:
    if len(text) > LONGEST_TEXT:
        raise GrantError("the grant is too long")
    head, dot, tail = text.partition(".")
    if not dot:
        raise GrantError("the grant has no signature")
    payload, signature = _decode(head), _decode(tail)
    for key in keys:
        try:
            key.verify(signature, payload)
        except InvalidSignature:
            continue
        return payload
    raise GrantError("the grant is not signed by this installation's operator")


def _parse(payload: bytes) -> Grant:
    try:
        return Grant.model_validate_json(payload)
    except ValidationError as error:
        raise GrantError("the grant's fields are not those of a grant of version 1") from error


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise GrantError("the grant is not base64url") from error
    if _encode(data) != text:
        raise GrantError("the grant is not in canonical base64url")
    return data
