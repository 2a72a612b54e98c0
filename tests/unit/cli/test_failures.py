"""What each answer of the API server means for a person: a line, a next step, an exit code."""

import json

import pytest

from sandhold.cli.failures import LONGEST, Asked, ExitCode, answered, unreachable

ASKED = Asked("patch", "sandboxsessions.sandhold.dev", "SandboxSession", "demo", "quill")
LISTED = Asked("list", "sandboxsessions.sandhold.dev", "SandboxSession")


def status(message: str, **more: object) -> bytes:
    return json.dumps({"kind": "Status", "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("code", "wanted", "step"),
    [
        (401, ExitCode.FORBIDDEN, "sign in again"),
        (403, ExitCode.FORBIDDEN, "kubectl auth can-i patch sandboxsessions.sandhold.dev -n demo"),
        (409, ExitCode.CONFLICT, "repeat the command"),
        (412, ExitCode.CONFLICT, "repeat the command"),
        (400, ExitCode.FAILED, "correct what the message names"),
        (422, ExitCode.FAILED, "correct what the message names"),
        (429, ExitCode.UNREACHABLE, "try again in a moment"),
        (500, ExitCode.UNREACHABLE, "try again in a moment"),
        (503, ExitCode.UNREACHABLE, "try again in a moment"),
    ],
)
def test_answers(code: int, wanted: ExitCode, step: str) -> None:
    error = answered(code, status("the server's own words"), ASKED)
    assert error.code is wanted
    assert error.message.startswith("SandboxSession demo/quill: ")
    assert str(code) in error.message or code == 412
    assert code == 401 or "the server's own words" in error.message
    assert step in error.next_step


def test_an_absent_object_is_told_from_an_absent_kind() -> None:
    absent = answered(404, status("not found", details={"name": "quill"}), ASKED)
    assert (absent.code, absent.message) == (ExitCode.NOT_FOUND, "SandboxSession demo/quill: not found")
    unserved = answered(404, b"404 page not found\n", ASKED)
    assert (unserved.code, unserved.message) == (ExitCode.NOT_FOUND, "the cluster serves no SandboxSession objects")
    assert answered(404, b"404 page not found\n", LISTED).message == "the cluster serves no SandboxSession objects"
    pod = Asked("create", "pods/exec", "Pod", "demo", "p")
    assert answered(404, b"", pod).message == "Pod demo/p: not found"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[]", b'{"kind":"Status"}', b"<html>\n\x1b[2J" + b"x" * 10_000])
def test_an_answer_that_is_no_status_is_one_bounded_line(body: bytes) -> None:
    for code in (403, 404, 500):
        error = answered(code, body, ASKED)
        assert error.message.isprintable()
        assert len(error.message) < LONGEST + 200


def test_a_connection_that_fails() -> None:
    error = unreachable("https://host", OSError("certificate verify failed"))
    assert "certificate-authority-data" in error.next_step
    assert "--context" in unreachable("https://host", TimeoutError()).next_step
    assert unreachable("https://host", TimeoutError()).message == "API server https://host: not reachable: TimeoutError"
