"""Where the backends file comes from, and keeping the last good one in force when a new one is bad.

A file that is named but not there is an error; no file at all is valid. Deciding what the file means is `model.py`'s
and `admit.py`'s business.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sandhold.backends.model import Backends, default_backends
from sandhold.backends.problems import InvalidBackendsError, Problem, explain

LARGEST_FILE = 1 << 20
PLACES = tuple(
    folder / f"sandbox-backends.{ending}"
    for folder in (Path("/etc/sandhold"), Path("~/.sandhold"))
    for ending in ("json", "yaml")
)


def find_backends(named: Path | None, places: Sequence[Path] = PLACES) -> Path | None:
    """The file to read: the named one whether or not it is there, else the first place that has one, else None."""
    if named is not None:
        return named
    return next((path for path in (place.expanduser() for place in places) if path.is_file()), None)


def load_backends(path: Path) -> Backends:
    """The file as a configuration; `InvalidBackendsError` with every problem otherwise."""
    document = _parse(path, _read(path))
    if not isinstance(document, dict):
        raise InvalidBackendsError(str(path), [Problem("the file", "holds no mapping", "write keys and values")])
    try:
        return Backends.model_validate(document)
    except ValidationError as error:
        raise InvalidBackendsError(str(path), explain(Backends, error)) from error


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reload found: whether the configuration in force is another one now, or why the new one is not."""

    changed: bool
    problems: tuple[Problem, ...] = ()


class BackendsInForce:
    """The configuration in force. The first load must succeed; a later bad file changes nothing and says so."""

    def __init__(self, path: Path | None, default_installation_id: str) -> None:
        self._path = path
        self._current = default_backends(default_installation_id) if path is None else load_backends(path)
        self._problems: tuple[Problem, ...] = ()

    def current(self) -> Backends:
        """The last good configuration."""
        return self._current

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the file as it is now is not in force; empty when it is."""
        return self._problems

    def reload(self) -> Reload:
        """Read the file again."""
        if self._path is None:
            return Reload(changed=False)
        try:
            fresh = load_backends(self._path)
        except InvalidBackendsError as error:
            return self._refuse(error.problems)
        if fresh.installation_id != self._current.installation_id:
            return self._refuse([_another_id(fresh.installation_id, self._current.installation_id)])
        changed = fresh != self._current
        self._current, self._problems = fresh, ()
        return Reload(changed=changed)

    def _refuse(self, problems: Sequence[Problem]) -> Reload:
        self._problems = tuple(problems)
        return Reload(changed=False, problems=self._problems)


def _another_id(new: str, old: str) -> Problem:
    """Watches are selected by the id that a process began with, and everything that was made carries it."""
    message = f"is {new}, and this process began with {old}"
    remedy = f"put {old} back; only a restart takes another id, and what carries {old} is then left where it is"
    return Problem("installation_id", message, remedy)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        problem = Problem("the file", f"cannot be read ({error.strerror})", "put it there, or unset SANDHOLD_BACKENDS")
        raise InvalidBackendsError(str(path), [problem]) from error
    if len(raw) > LARGEST_FILE:
        raise InvalidBackendsError(str(path), [Problem("the file", "is larger than 1 MiB", "make it smaller")])
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidBackendsError(str(path), [Problem("the file", "is not UTF-8", "save it as UTF-8")]) from error


def _parse(path: Path, text: str) -> Any:
    try:
        if path.suffix == ".json":
            return json.loads(text, object_pairs_hook=_distinct_keys)
        return yaml.load(text, _DistinctKeysLoader)  # noqa: S506 - a SafeLoader
    except json.JSONDecodeError as error:
        problem = Problem(f"line {error.lineno}, column {error.colno}", f"is not JSON ({error.msg})", "correct it")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        problem = Problem(place, f"is not YAML ({error.problem})", "correct it")
    except yaml.YAMLError as error:
        problem = Problem("the file", f"is not YAML ({error})", "correct it")
    except RecursionError:
        problem = Problem("the file", "is nested too deeply", "correct it")
    except _RepeatedKeyError as error:
        problem = Problem(str(error), "stands twice in one mapping", "keep one of them")
    raise InvalidBackendsError(str(path), [problem])


class _RepeatedKeyError(ValueError):
    """A key stands twice, so that one of its values would be ignored in silence."""


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise _RepeatedKeyError(key)
        seen[key] = value
    return seen


_MERGE = "tag:yaml.org,2002:merge"


class _DistinctKeysLoader(yaml.SafeLoader):
    """YAML without objects, and without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for node_of_key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE):
            key = self.construct_object(node_of_key)
            if key in seen:
                raise _RepeatedKeyError(str(key))
            seen.add(key)
        return super().construct_mapping(node, deep=deep)
