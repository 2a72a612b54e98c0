"""`sandhold exec`: a command in the agent's container of a session that is Ready, and its exit code."""

import sys
from contextlib import ExitStack

from sandhold import names
from sandhold.api.session import REST
from sandhold.cli import terminal
from sandhold.cli.call import Call
from sandhold.cli.channels import Command, Streams, execute
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.opening import opened
from sandhold.cli.printing import note
from sandhold.cli.reading import session_shape
from sandhold.cli.shapes import SessionShape
from sandhold.cli.waiting import SESSION


async def run(call: Call, *, name: str, command: tuple[str, ...], has_input: bool, wants_terminal: bool) -> int:
    """Run it. Failures of ours have an exit code that no usual command has."""
    try:
        return await _run(call, name, command, has_input=has_input, wants_terminal=wants_terminal)
    except CliError as error:
        if error.code is not ExitCode.USAGE:
            error.code = ExitCode.NOT_EXECUTED
        raise


async def _run(call: Call, name: str, words: tuple[str, ...], *, has_input: bool, wants_terminal: bool) -> int:
    has_terminal = wants_terminal and has_input and terminal.is_terminal()
    if wants_terminal and not has_terminal:
        note("sandhold: no terminal is used: --tty needs --stdin, and input that is a terminal")
    async with opened(call, None) as api:
        shape = session_shape(await api.get(SESSION, api.namespace, name))
        pod = _pod_of(shape)
        command = Command(api.namespace, pod, names.AGENT_CONTAINER, words, has_terminal=has_terminal)
        streams = Streams(
            output=terminal.write_output,
            errors=terminal.write_errors,
            input=terminal.typed() if has_input else None,
            sizes=terminal.sizes() if has_terminal else None,
        )
        sys.stdout.flush()
        with ExitStack() as stack:
            if has_terminal:
                stack.enter_context(terminal.raw())
            return await execute(api, command, streams)


def _pod_of(shape: SessionShape) -> str:
    """The pod of a session whose agent may be spoken to."""
    place = f"SandboxSession {shape.namespace}/{shape.name}"
    if shape.ready and shape.pod is not None and not shape.deleting:
        return shape.pod.name
    why = "it is being deleted" if shape.deleting else f"{shape.reason or 'the operator has not seen it yet'}"
    said = f": {shape.message}" if shape.message and not shape.deleting else ""
    step = f"sandhold explain session/{shape.name} -n {shape.namespace}"
    if shape.phase in REST:
        step = f"sandhold session resume {shape.name} --wait -n {shape.namespace}"
    raise CliError(f"{place}: not Ready: {why}{said}", step, ExitCode.NOT_READY)
