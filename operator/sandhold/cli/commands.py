"""From an async function to a command: its arguments and the shared options, one event loop, one way to fail.

What a command does is never here. A failure becomes two lines on standard error and an exit code.
"""

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import typer

from sandhold.cli import call as options
from sandhold.cli.call import Call
from sandhold.cli.failures import CliError, ExitCode

Body = Callable[..., Awaitable[int | None]]
_SHARED: Mapping[str, tuple[Any, Any]] = {
    "kubeconfig": (options.Kubeconfig, None),
    "context": (options.Context, None),
    "namespace": (options.Namespace, None),
    "timeout": (options.Timeout, None),
}
_OUTPUT: Mapping[str, tuple[Any, Any]] = {"output": (options.OutputForm, options.Output.TABLE)}


def command(group: typer.Typer, name: str, *, has_output: bool = True) -> Callable[[Body], Body]:
    """Make a command of a function whose first parameter is the `Call`."""

    def register(body: Body) -> Body:
        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        shared = {**_SHARED, **(_OUTPUT if has_output else {})}

        def run(context_: typer.Context, **given: Any) -> None:
            before: Mapping[str, Any] = context_.obj or {}
            here: dict[str, Any] = {each: given.pop(each) for each in shared}
            here |= {each: value for each, value in before.items() if here[each] is None}
            raise typer.Exit(run_to_end(body(Call(**here), **given)))

        _declare(run, [*own, *_parameters(shared)], body.__doc__)
        group.command(name)(run)
        return body

    return register


def options_in_front(app: typer.Typer) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Take the shared options before the command's name, too: `sandhold -n team session ls`."""

    def register(root: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(root, eval_str=True).parameters.values())

        def run(context_: typer.Context, **given: Any) -> None:
            context_.obj = {each: given.pop(each) for each in _SHARED}
            root(**given)

        _declare(run, [*own, *_parameters(_SHARED)], root.__doc__)
        app.callback()(run)
        return root

    return register


def _parameters(shared: Mapping[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in shared.items()
    ]


def _declare(run: Callable[..., None], parameters: Sequence[inspect.Parameter], said: str | None) -> None:
    """What typer reads of a function. It takes the context by its type."""
    context = inspect.Parameter("context_", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [context, *parameters]}
    run.__doc__ = said


def run_to_end(work: Awaitable[int | None]) -> int:
    """Run a command; its exit code."""
    try:
        code = asyncio.run(_awaited(work)) or ExitCode.DONE
        sys.stdout.flush()
    except CliError as error:
        fail(error)
        return error.code
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("\nsandhold: interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # also of an exec's output
        # Python flushes standard output at its end, and would complain about the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CUT_OFF
    except Exception as error:  # noqa: BLE001 - a defect of ours, said without a page of code
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"defect: {type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"  # noqa: PTH119
        fail(CliError(what, "please report this line together with the command"))
        return ExitCode.FAILED
    return code


def fail(error: CliError) -> None:
    """Two lines: what happened, what to do."""
    sys.stderr.write(f"sandhold: {error.message}\n  next: {error.next_step}\n")


async def _awaited(work: Awaitable[int | None]) -> int | None:
    return await work
