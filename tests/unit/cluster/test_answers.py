"""What an answer means to the operator: whether to look again at once, later, or not before a person acted."""

import json

import pytest

from sandhold.cluster.answers import LONGEST_RETRY_AFTER, Answer, NamespaceEndingError, QuotaError, error_of
from sandhold.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, SandholdError, UnavailableError


def answer(code: int, message: str = "words", retry_after: str | None = None, **details: object) -> Answer:
    status = {"kind": "Status", "message": message, "details": details}
    return Answer(code, json.dumps(status).encode(), retry_after)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, InvalidError),
        (401, ForbiddenError),
        (403, ForbiddenError),
        (409, ConflictError),
        (412, ConflictError),
        (413, InvalidError),
        (422, InvalidError),
        (429, UnavailableError),
        (500, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
    ],
)
def test_each_code_has_its_kind(code: int, kind: type[SandholdError]) -> None:
    error = error_of(answer(code), "create Pod a/b")
    assert type(error) is kind
    assert str(error) == f"create Pod a/b: words (HTTP {code})"


def test_only_an_object_that_is_named_is_absent() -> None:
    assert type(error_of(answer(404, name="quill"), "get")) is NotFoundError
    assert type(error_of(answer(404), "get")) is UnavailableError
    assert type(error_of(Answer(404, b"404 page not found"), "get")) is UnavailableError


def test_an_ending_namespace_and_a_quota_are_told_from_a_missing_right() -> None:
    ending = answer(403, causes=[{"reason": "NamespaceTerminating"}])
    assert type(error_of(ending, "create")) is NamespaceEndingError
    assert type(error_of(answer(403, "pods is forbidden: exceeded quota: small"), "create")) is QuotaError


def test_a_failed_test_of_a_patch_is_a_conflict() -> None:
    assert type(error_of(answer(422), "patch", patch_with_tests=True)) is ConflictError
    wrong = answer(422, causes=[{"field": "status.phase"}])
    assert type(error_of(wrong, "patch", patch_with_tests=True)) is InvalidError


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), (None, None), ("", None), ("0", None), ("-1", None), ("nan", None), ("soon", None)],
)
def test_a_server_that_asks_for_time_is_understood(header: str | None, seconds: float | None) -> None:
    error = error_of(answer(429, retry_after=header), "list")
    assert isinstance(error, UnavailableError)
    assert error.retry_after == seconds


def test_nobody_asks_for_an_hour() -> None:
    for header in ("3600", "inf", "1e300"):
        error = error_of(answer(503, retry_after=header), "list")
        assert isinstance(error, UnavailableError)
        assert error.retry_after == LONGEST_RETRY_AFTER
