"""PURE: what the API server's answers mean, as the kinds of `errors.py`. No request is made here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandhold.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    SandholdError,
    UnavailableError,
)

LONGEST_MESSAGE = 600
LONGEST_RETRY_AFTER = 120.0


class NamespaceEndingError(ConflictError):
    """Nothing can be created in this namespace any more: it is being deleted, and a look at it will show that."""


class QuotaError(ForbiddenError):
    """A quota of the namespace leaves no room."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end."""

    status: int
    body: bytes
    retry_after: str | None = None


def error_of(answer: Answer, what: str, *, patch_with_tests: bool = False) -> SandholdError:
    """The error that an answer stands for; `what` says in words what was asked for."""
    status = status_of(answer.body)
    text = f"{what}: {_message(status, answer)}"
    error: SandholdError
    match answer.status:
        case 404:
            error = _absent(status, text)
        case 409 | 412:
            error = ConflictError(text)
        case 422 if patch_with_tests and not _causes(status):
            error = ConflictError(f"{text}; the object is no longer as it was read")
        case 422 if any(cause.get("field") == "metadata.uid" for cause in _causes(status)):
            # Some kinds check the UID as a field that cannot change before they check it as a precondition.
            error = ConflictError(text)
        case 401 | 403:
            error = _forbidden(status, text)
        case 400 | 405 | 406 | 413 | 415 | 422:
            error = InvalidError(text)
        case _:
            error = UnavailableError(text, retry_after=_retry_after(answer.retry_after))
    return error


def _absent(status: Mapping[str, Any], text: str) -> SandholdError:
    if names_an_object(status):
        return NotFoundError(text)
    return UnavailableError(f"{text}; is the kind installed?")


def names_an_object(status: Mapping[str, Any]) -> bool:
    """A 404 about an object names it; one about a path that is not served (a CRD is missing) does not."""
    details = status.get("details")
    return isinstance(details, Mapping) and bool(details.get("name"))


def _forbidden(status: Mapping[str, Any], text: str) -> SandholdError:
    if any(cause.get("reason") == "NamespaceTerminating" for cause in _causes(status)):
        return NamespaceEndingError(text)
    if "exceeded quota" in str(status.get("message")):
        return QuotaError(text)
    return ForbiddenError(text)


def status_of(body: bytes) -> Mapping[str, Any]:
    """The Status object in an answer; empty where there is none."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, Mapping) and document.get("kind") == "Status" else {}


def _causes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return [cause for cause in causes if isinstance(cause, Mapping)] if isinstance(causes, list) else []


def _message(status: Mapping[str, Any], answer: Answer) -> str:
    said = status.get("message") or answer.body[:LONGEST_MESSAGE].decode(errors="replace").strip() or "no message"
    return f"{str(said)[:LONGEST_MESSAGE]} (HTTP {answer.status})"


def _retry_after(header: str | None) -> float | None:
    """Seconds only: the API server never sends a date here, and a proxy's date is not worth a clock."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(seconds, LONGEST_RETRY_AFTER) if seconds > 0 else None
