"""What is wrong with a backends file, said to the person who wrote it: key path, what is wrong, what to do."""

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from sandhold.errors import InvalidError

_REMEDIES = {
    "missing": "add it",
    "string_type": "write a text, in quotes if it looks like a number",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "dict_type": "write a mapping of keys to values",
    "model_type": "write a mapping of keys to values",
    "tuple_type": "write a list",
    "string_pattern_mismatch": "use only what the reference page of this key allows",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault at one key."""

    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}; {self.remedy}" if self.remedy else f"{self.path}: {self.message}"


class InvalidBackendsError(InvalidError):
    """A backends file cannot be used. It says every problem at once."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(f"{source}: " + "; ".join(str(problem) for problem in self.problems))


def explain(model: type[BaseModel], error: ValidationError) -> tuple[Problem, ...]:
    """Pydantic's errors as problems, in the order of the file. Values are never repeated: they may be secrets."""
    return tuple(_problem(model, detail) for detail in error.errors(include_url=False, include_input=False))


def _problem(model: type[BaseModel], detail: Mapping[str, Any]) -> Problem:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    path = ".".join(str(part) for part in location) or "the file"
    if detail["type"] == "extra_forbidden":
        known = ", ".join(known_keys(model, location[:-1]))
        return Problem(path, "unknown key", f"keys known here are {known}" if known else "no keys are known here")
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "value_error":
        said, _, remedy = message.partition("; ")
        return Problem(path, said, remedy or "correct the value")
    return Problem(path, message[:1].lower() + message[1:], _REMEDIES.get(detail["type"], "correct the value"))


def known_keys(model: type[BaseModel], location: Sequence[int | str]) -> tuple[str, ...]:
    """The keys that may stand at a place of the file; empty where there are none or the place is no mapping."""
    annotation: Any = model
    for part in location:
        annotation = _below(annotation, str(part))
    found = _model_of(annotation)
    return tuple(found.model_fields) if found is not None else ()


def _below(annotation: Any, key: str) -> Any:
    found = _model_of(annotation)
    if found is not None:
        field = found.model_fields.get(key)
        return field.annotation if field is not None else None
    arguments = typing.get_args(annotation)
    return arguments[-1] if arguments else None


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in {typing.Union, types.UnionType, typing.Annotated}:
        candidates = (_model_of(argument) for argument in typing.get_args(annotation))
        return next((candidate for candidate in candidates if candidate is not None), None)
    return None
