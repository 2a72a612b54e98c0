"""Questions to the operator, put in its own pod by an exec: only it knows what keepers report and the store holds.

Whoever may execute commands in the operator's namespace may ask. A standby says who leads, and is believed once.
"""

import json
from typing import Any

from sandhold import names
from sandhold.cli.api import Api, Object
from sandhold.cli.channels import Command, Streams, execute
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.printing import clean

USUAL_NAMESPACE = "sandhold-system"
CONTAINER = "operator"
PROGRAM = "sandhold-operator"
MOST_BYTES = 8 << 20
_LABELS = f"{names.LABEL_APP}=sandhold,{names.LABEL_COMPONENT}=operator"
_STEP = "see whether it runs: kubectl get pods -A -l " + _LABELS


class UnansweredError(CliError):
    """The operator could not be asked; who asked may know another way."""


async def ask(api: Api, namespace: str | None, *words: str) -> Object:
    """Ask the one that leads; its answer."""
    pods = await _pods(api, namespace)
    answer = await _ask(api, pods[0], words)
    if answer.get("code") == "standby" and answer.get("leader"):
        leader = next((pod for pod in pods if pod["metadata"]["name"] == answer["leader"]), None)
        if leader is not None:
            answer = await _ask(api, leader, words)
    if answer.get("ok") is True:
        return answer
    said = clean(answer.get("message") or "it gave no answer")
    if answer.get("code") == "not_found":
        raise CliError(said, "check kind, namespace and name: sandhold session ls -A", ExitCode.NOT_FOUND)
    raise UnansweredError(f"operator: {said}", _STEP, ExitCode.UNREACHABLE)


async def _pods(api: Api, namespace: str | None) -> list[Object]:
    """Its running pods, in the namespace that is named, else in the usual one, else wherever they are."""
    for place in (namespace,) if namespace is not None else (USUAL_NAMESPACE, None):
        try:
            found = await api.list_all("Pod", place, labels=_LABELS)
        except CliError as error:
            if error.code is not ExitCode.FORBIDDEN:
                raise
            step = "name the operator's namespace with --operator-namespace, or ask for rights on pods and pods/exec"
            raise UnansweredError(f"operator: {error.message}", f"{step} in it", ExitCode.FORBIDDEN) from error
        running = [pod for pod in found if _is_running(pod)]
        if running:
            return running
    where = f"namespace {namespace}" if namespace else "this cluster"
    raise UnansweredError(f"operator: no pod of it runs in {where}", _STEP, ExitCode.UNREACHABLE)


def _is_running(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


async def _ask(api: Api, pod: Object, words: tuple[str, ...]) -> dict[str, Any]:
    output, errors = _Collected(), _Collected()
    metadata = pod["metadata"]
    command = Command(metadata["namespace"], metadata["name"], CONTAINER, (PROGRAM, "ask", *words))
    try:
        await execute(api, command, Streams(output.take, errors.take))
        answer = json.loads(output.content)
    except ValueError as error:
        said = clean(errors.content.decode(errors="replace"))[-300:] or "its answer is no JSON"
        step = "use a sandhold of the operator's version"
        raise UnansweredError(f"operator: {said}", step, ExitCode.UNREACHABLE) from error
    except CliError as error:
        raise UnansweredError(f"operator: {error.message}", error.next_step, error.code) from error
    if not isinstance(answer, dict):
        raise UnansweredError("operator: its answer is no object", _STEP, ExitCode.UNREACHABLE)
    return answer


class _Collected:
    """Output of a program, up to a bound."""

    def __init__(self) -> None:
        self.content = b""

    async def take(self, part: bytes) -> None:
        self.content += part
        if len(self.content) > MOST_BYTES:
            step = "report this together with the command"
            raise UnansweredError("operator: its answer is too long", step, ExitCode.FAILED)
