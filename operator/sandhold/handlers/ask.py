"""`sandhold-operator ask`: a question to the operator that runs in this container, its answer on standard output.

Standard library only, so that asking costs a few megabytes beside the operator and no more. It decides nothing.
"""

import argparse
import json
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sandhold import names

SECONDS = 30.0
MOST_BYTES = 8 << 20
_USAGE = 2
_KINDS = {
    "sandboxsession": ("sandboxsession", "sandboxsessions", "session", "sbs"),
    "agentsandbox": ("agentsandbox", "agentsandboxes", "sandbox", "asb"),
}


def main(words: Sequence[str]) -> int:
    """Ask; 0 with an answer, 1 without one."""
    parser = argparse.ArgumentParser(prog="sandhold-operator ask", description="Ask the operator in this container.")
    parser.add_argument("--socket", default=names.PATH_QUESTIONS, help="where it listens")
    verbs = parser.add_subparsers(dest="verb", required=True)
    planning = verbs.add_parser("plan", help="what it would do now, without doing it")
    planning.add_argument("object", metavar="KIND/NAMESPACE/NAME")
    verbs.add_parser("installation", help="whose objects it looks after")
    asked = parser.parse_args(words)
    question = {"verb": asked.verb} if asked.verb != "plan" else _plan_question(asked.object)
    if question is None:
        sys.stderr.write(f"KIND/NAMESPACE/NAME, with one of the kinds {', '.join(_KINDS)}: not {asked.object}\n")
        return _USAGE
    try:
        answer = _ask(asked.socket, question)
    except (OSError, ValueError, TypeError) as error:
        answer = {"ok": False, "code": "unavailable", "message": f"the operator does not answer: {error}"}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n")
    return 0 if answer.get("ok") else 1


def _plan_question(text: str) -> dict[str, str] | None:
    kind, namespace, name = text.split("/") if text.count("/") == 2 else ("", "", "")
    known = next((one for one, called in _KINDS.items() if kind.lower() in called), None)
    if known is None or not namespace or not name:
        return None
    return {"verb": "plan", "kind": known, "namespace": namespace, "name": name}


def _ask(path: str, question: dict[str, str]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        # Who is turned away has the answer before the question was read, and then a connection that is broken.
        with suppress(BrokenPipeError):
            connection.sendall(json.dumps(question).encode() + b"\n")
        answer = json.loads(b"".join(_received(connection)))
    if not isinstance(answer, dict):
        raise TypeError("the answer is no JSON object")
    return answer


def _received(connection: socket.socket) -> Iterator[bytes]:
    size = 0
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            yield part
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
