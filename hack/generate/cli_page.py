"""`docs/reference/cli.md`: every command of `sandhold` with its arguments, the exit codes, and what `-o json` says."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

from pydantic.fields import FieldInfo
from typer.main import get_command

from generate.tables import page, table
from sandhold.cli import shapes
from sandhold.cli.app import app
from sandhold.cli.call import GLOBAL
from sandhold.cli.failures import MEANINGS
from sandhold.cli.shapes import Shape

_INTRODUCTION = (
    "`sandhold`, or `kubectl sandhold` as a plugin of kubectl, is installed by `pip install '.[cli]'` from a clone; "
    "it is in the image `sandhold`, too. It uses the kubeconfig and the rights of whoever calls it. Output is for "
    "standard output, everything else for standard error. Tables have colours on a terminal, unless `NO_COLOR` is "
    "set, and are plain columns elsewhere."
)
_FAILURES = (
    "A failure is two lines on standard error, what happened and what to do next, and one of these exit codes. "
    "`exec` passes on the exit code of the command that it ran."
)
_SHAPES = (
    "`-o json` and `-o yaml` say the same. Fields are added, never changed or taken away. A field is always there; "
    'null says that there is nothing to say. Lists are `{"items": [...]}`.'
)


class UndescribedCommandError(Exception):
    """A command, an option or a field has no words."""


def cli_page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, "## Commands"]
    commands = list(_leaves("sandhold", get_command(app)))
    for name, command in commands:
        parts += _command(name, command)
    parts += [f"## {GLOBAL}", "All but `-o` may stand before the command's name as well.", _options(_shared(commands))]
    parts += ["## Exit codes", _FAILURES]
    parts.append(table(("code", "meaning"), ((f"{int(code)}", said) for code, said in MEANINGS.items())))
    parts += ["## Output for programs", _SHAPES]
    for _, shape in inspect.getmembers(shapes, _is_shape):
        parts += [f"### {shape.__name__.removesuffix('Shape')}", inspect.cleandoc(shape.__doc__ or ""), _fields(shape)]
    return page("Command line", "hack/generate/reference from operator/sandhold/cli/", parts)


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for word, each in below.items():
        yield from _leaves(f"{name} {word}", each)


def _command(name: str, command: Any) -> Iterator[str]:
    if not command.help:
        raise UndescribedCommandError(name)
    arguments = " ".join(_metavar(each) for each in command.params if each.param_type_name == "argument")
    whole = f"{name} {arguments}".rstrip()
    yield f"### `{whole}`"
    yield inspect.cleandoc(command.help)
    own = [each for each in command.params if each.param_type_name == "option" and _panel(each) != GLOBAL]
    if own:
        yield _options(own)


def _shared(commands: list[tuple[str, Any]]) -> list[Any]:
    found = {each.name: each for _, command in commands for each in command.params if _panel(each) == GLOBAL}
    return list(found.values())


def _options(options: list[Any]) -> str:
    return table(("option", "meaning"), (_option(each) for each in options))


def _option(option: Any) -> tuple[str, str]:
    if not option.help:
        raise UndescribedCommandError(option.name)
    names = ", ".join(f"`{each}`" for each in sorted((*option.opts, *option.secondary_opts), key=len))
    value = "" if option.is_flag else f" {_metavar(option)}"
    return f"{names}{value}", option.help


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or str(parameter.name).upper())


def _panel(parameter: Any) -> str | None:
    return getattr(parameter, "rich_help_panel", None)


def _is_shape(member: object) -> bool:
    return inspect.isclass(member) and issubclass(member, Shape) and member is not Shape


def _fields(shape: type[Shape]) -> str:
    return table(("field", "type", "meaning"), (_field(shape, name, each) for name, each in shape.model_fields.items()))


def _field(shape: type[Shape], name: str, field: FieldInfo) -> tuple[str, str, str]:
    if not field.description:
        raise UndescribedCommandError(f"{shape.__name__}.{name}")
    return f"`{field.alias or name}`", _type(field.annotation), field.description


def _type(annotation: Any) -> str:
    arguments = get_args(annotation)
    if type(None) in arguments:
        return " or ".join([*(_type(each) for each in arguments if each is not type(None)), "null"])
    if arguments:
        return "object" if len(arguments) == 2 else f"list of {_type(arguments[0])}"
    if inspect.isclass(annotation) and issubclass(annotation, Shape):
        name = annotation.__name__.removesuffix("Shape")
        return f"[{name}](#{name.lower()})"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]
