"""How a command ends when it does not do what was asked: one line what happened, one line what to do, one exit code.

Every failure that a person can meet is one of these; nobody is shown a traceback.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from sandhold.cluster.answers import names_an_object, status_of

LONGEST = 600


class ExitCode(IntEnum):
    """What programs may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    TIMEOUT = 3
    NOT_FOUND = 4
    FORBIDDEN = 5
    CONFLICT = 6
    UNREACHABLE = 7
    NOT_READY = 8
    NOT_EXECUTED = 125
    INTERRUPTED = 130
    CUT_OFF = 141


MEANINGS = MappingProxyType(
    {
        ExitCode.DONE: "Done.",
        ExitCode.FAILED: "It was tried and did not work out: the session was refused, a request was invalid.",
        ExitCode.USAGE: "The command line, the kubeconfig or a needed confirmation is missing or wrong.",
        ExitCode.TIMEOUT: "`--timeout` was over first. What was asked for goes on by itself.",
        ExitCode.NOT_FOUND: "The object, or its kind, is not there.",
        ExitCode.FORBIDDEN: "The API server does not know the caller (401), or does not allow it (403).",
        ExitCode.CONFLICT: "The object changed at the same moment, or is another one by now (409).",
        ExitCode.UNREACHABLE: "The API server, or the operator where it is needed, does not answer.",
        ExitCode.NOT_READY: "The session cannot do that now; the message gives the reason of its condition.",
        ExitCode.NOT_EXECUTED: "`exec` alone: the command was not run, or its exit code is not known.",
        ExitCode.INTERRUPTED: "Ctrl-C. What was asked for before goes on by itself.",
        ExitCode.CUT_OFF: "Whoever read the output stopped reading (`| head`).",
    }
)


class CliError(Exception):
    """What happened, and what to do next."""

    def __init__(self, message: str, next_step: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.code = code


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in words: for messages and for nothing else."""

    verb: str
    """The verb as RBAC calls it."""
    plural: str
    kind: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {place}" if place else f"{self.kind} objects"

    @property
    def right(self) -> str:
        """How to ask whether one may."""
        scope = f" -n {self.namespace}" if self.namespace else " -A"
        return f"kubectl auth can-i {self.verb} {self.plural}{scope}"


def answered(status: int, body: bytes, asked: Asked) -> CliError:
    """What an answer that is no success means."""
    document = status_of(body)
    said = _line(document.get("message") or body[:LONGEST].decode(errors="replace") or "no message")
    match status:
        case 401:
            step = "sign in again, or choose another user with --context or --kubeconfig"
            return CliError(f"{asked}: the API server does not accept the credentials (401)", step, ExitCode.FORBIDDEN)
        case 403:
            return CliError(
                f"{asked}: {asked.verb} is not allowed (403): {said}", f"ask for the right: {asked.right}",
                ExitCode.FORBIDDEN,
            )  # fmt: skip
        case 404:
            return _absent(document, asked)
        case 409 | 412:
            step = "look at it again and repeat the command"
            return CliError(f"{asked}: it changed meanwhile (409): {said}", step, ExitCode.CONFLICT)
        case 400 | 405 | 413 | 415 | 422:
            return CliError(f"{asked}: refused ({status}): {said}", "correct what the message names")
        case _:
            step = "try again in a moment; `kubectl get --raw /readyz` says how the API server is"
            return CliError(f"{asked}: the API server cannot answer now ({status}): {said}", step, ExitCode.UNREACHABLE)


def unreachable(host: str, error: BaseException) -> CliError:
    """No answer at all."""
    certificate = "certificate" in str(error).lower()
    if certificate:
        step = "check certificate-authority-data of this cluster in the kubeconfig"
    else:
        step = "check that this is the cluster you mean (--context, --kubeconfig), the network and the VPN"
    why = _line(str(error)) or type(error).__name__
    return CliError(f"API server {host}: not reachable: {why}", step, ExitCode.UNREACHABLE)


def timed_out(what: str, next_step: str) -> CliError:
    """The time that the caller gave is over."""
    return CliError(what, next_step, ExitCode.TIMEOUT)


def not_found(asked: Asked) -> CliError:
    """A confirmed absence."""
    listing = {"SandboxSession": "sandhold session ls", "SandboxSnapshot": "sandhold snapshot ls"}
    command = listing.get(asked.kind, f"kubectl get {asked.plural}")
    scope = f" -n {asked.namespace}" if asked.namespace else ""
    return CliError(f"{asked}: not found", f"see what is there: {command}{scope}", ExitCode.NOT_FOUND)


def _absent(document: Mapping[str, Any], asked: Asked) -> CliError:
    is_always_served = "." not in asked.plural
    if asked.name and (names_an_object(document) or is_always_served):
        return not_found(asked)
    return CliError(
        f"the cluster serves no {asked.kind} objects",
        "install Sandhold, or choose another cluster with --context",
        ExitCode.NOT_FOUND,
    )


def _line(text: str) -> str:
    """One bounded line of printable characters."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in str(text)[: 2 * LONGEST]).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
