"""`docs/reference/backends.md` and `settings.md`: the keys of the backends file, and the environment of programs."""

import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from generate.tables import page, table
from sandhold import settings
from sandhold.backends.model import Backends

_ORIGIN = "hack/generate/reference from operator/sandhold/"

_WHERE = (
    "The operator's configuration, YAML or JSON: the file that `SANDHOLD_BACKENDS` names, else "
    "`/etc/sandhold/sandbox-backends.json` or `.yaml`, else the same in `~/.sandhold/`. "
    "Without any: one tier `runc`, which is not for untrusted work, and no store."
)


class UndescribedKeyError(Exception):
    """A key has no description."""


def settings_page() -> str:
    """The environment variables of every program."""
    programs = [
        value
        for value in vars(settings).values()
        if isinstance(value, type) and issubclass(value, BaseSettings) and value is not BaseSettings
    ]
    parts = ["Programs read nothing else from their environment, and no secret ever: those are mounted files."]
    for program in programs:
        prefix = program.model_config.get("env_prefix", "")
        rows = [
            (f"`{prefix}{name.upper()}`", _type(field.annotation), _default(field), _described(program, name, field))
            for name, field in program.model_fields.items()
        ]
        title = (program.__doc__ or "").split("`")[1]
        parts += [f"## {title}", table(("variable", "type", "default", "meaning"), rows)]
    return page("Settings", _ORIGIN + "settings.py", parts)


def backends_page() -> str:
    """The keys of the backends file."""
    rows = list(_keys("", Backends))
    parts = [
        _WHERE,
        "An unknown key is refused, and so is a key that stands twice. A bad new file leaves the old one in force.",
        table(("key", "type", "default", "meaning"), rows),
    ]
    return page("Backends file", _ORIGIN + "backends/model.py", parts)


def _keys(path: str, model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        place = f"{path}{name}"
        yield f"`{place}`", _type(field.annotation), _default(field), _described(model, name, field)
        below = _model_of(field.annotation)
        if below is not None:
            named = typing.get_origin(field.annotation) is dict
            yield from _keys(f"{place}.<name>." if named else f"{place}.", below)


def _described(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if not field.description:
        raise UndescribedKeyError(f"{model.__name__}.{name} has no description")
    return " ".join(field.description.split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default in (None, PydanticUndefined, ""):
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is typing.Literal:
        return " or ".join(f"`{choice}`" for choice in arguments)
    if origin in {dict, tuple}:
        return f"map of {_type(arguments[1])}" if origin is dict else f"list of {_type(arguments[0])}"
    return _plain_type(annotation)


def _plain_type(annotation: type) -> str:
    if issubclass(annotation, Enum):
        return " or ".join(f"`{choice.value}`" for choice in annotation)
    if issubclass(annotation, BaseModel):
        return "object"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return words[annotation]


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    found = (_model_of(argument) for argument in typing.get_args(annotation))
    return next((model for model in found if model is not None), None)
