"""JSON patch and server-side apply on plain documents, as far as the fake API server needs them.

Lists are replaced as a whole by an apply, but for finalizers (a set) and owner references (keyed by UID): what we apply
holds no other list that several writers share.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sandhold.errors import ConflictError, InvalidError

Document = dict[str, Any]
T = TypeVar("T")
Path = tuple[str, ...]
_LEAVES = frozenset({str, int, float, bool, type(None)})


def copied(value: T) -> T:
    """A copy of JSON: what `deepcopy` does, without looking for what JSON cannot hold."""
    # Half of what the fakes do is this: leaves, which are most of a document, are not worth a call each.
    if isinstance(value, dict):
        return {key: item if type(item) in _LEAVES else copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return [item if type(item) in _LEAVES else copied(item) for item in value]  # type: ignore[return-value]
    return value


def json_patched(document: Document, operations: Sequence[Mapping[str, Any]]) -> Document:
    """A patched copy; ConflictError when a `test` fails or a place is not there."""
    result = copied(document)
    for operation in operations:
        _patch_one(result, operation)
    return result


def _patch_one(document: Document, operation: Mapping[str, Any]) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    verb = operation["op"]
    try:
        parent = _walk(document, parts[:-1])
        if verb == "test":
            _check(_child(parent, parts[-1]), operation)
        elif verb == "add":
            _add(parent, parts[-1], copied(operation["value"]))
        elif verb == "replace":
            _child(parent, parts[-1])
            _set(parent, parts[-1], copied(operation["value"]))
        elif verb == "remove":
            _child(parent, parts[-1])
            _remove(parent, parts[-1])
        else:
            raise InvalidError(f"json patch: `{verb}` is not spoken by the fake")
    except (KeyError, IndexError, ValueError, TypeError) as error:
        # The server's 422 does not say whether a test failed or a place was not there.
        raise ConflictError(f"json patch: `{verb}` of {operation['path']}: no such place") from error


def _check(value: Any, operation: Mapping[str, Any]) -> None:
    if value != operation["value"]:
        raise ConflictError(f"json patch: test of {operation['path']} failed")


def _walk(document: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        document = _child(document, part)
    return document


def _child(parent: Any, part: str) -> Any:
    return parent[int(part)] if isinstance(parent, list) else parent[part]


def _set(parent: Any, part: str, value: Any) -> None:
    if isinstance(parent, list):
        parent[int(part)] = value
    else:
        parent[part] = value


def _add(parent: Any, part: str, value: Any) -> None:
    if isinstance(parent, list):
        index = len(parent) if part == "-" else int(part)
        if index > len(parent):
            raise IndexError(part)
        parent.insert(index, value)
    else:
        parent[part] = value


def _remove(parent: Any, part: str) -> None:
    if isinstance(parent, list):
        del parent[int(part)]
    else:
        del parent[part]


def owned_paths(intent: Mapping[str, Any], prefix: Path = ()) -> frozenset[Path]:
    """The leaves that an applied intent owns."""
    found: set[Path] = set()
    for key, value in intent.items():
        path = (*prefix, key)
        if path == ("metadata", "finalizers"):
            found |= {(*path, item) for item in value}
        elif path == ("metadata", "ownerReferences"):
            found |= {(*path, item["uid"]) for item in value}
        elif isinstance(value, Mapping) and value:
            found |= owned_paths(value, path)
        else:
            found.add(path)
    return frozenset(found)


def applied(live: Document, intent: Mapping[str, Any], owned_before: frozenset[Path]) -> Document:
    """The document after an apply: the intent merged in, and what the same manager owned and left out taken away."""
    result = copied(live)
    for path in owned_before - owned_paths(intent):
        _forget(result, path)
    _merge(result, intent, ())
    return result


def _merge(live: Document, intent: Mapping[str, Any], prefix: Path) -> None:
    for key, value in intent.items():
        path = (*prefix, key)
        if path == ("metadata", "finalizers"):
            live[key] = list(dict.fromkeys([*live.get(key, []), *value]))
        elif path == ("metadata", "ownerReferences"):
            mine = {item["uid"]: item for item in value}
            rest = [item for item in live.get(key, []) if item["uid"] not in mine]
            live[key] = [*rest, *copied(list(value))]
        elif isinstance(value, Mapping):
            if not isinstance(live.get(key), dict):
                live[key] = {}
            _merge(live[key], value, path)
        else:
            live[key] = copied(value)


def _forget(document: Document, path: Path) -> None:
    parents: list[tuple[Document, str]] = []
    place: Any = document
    for part in path[:-1]:
        if not isinstance(place, dict) or part not in place:
            return
        parents.append((place, part))
        place = place[part]
    if isinstance(place, list):
        place[:] = [item for item in place if path[-1] not in (item, item.get("uid") if isinstance(item, dict) else "")]
    elif isinstance(place, dict):
        place.pop(path[-1], None)
    for parent, part in reversed(parents):
        if parent[part] not in ({}, []):
            return
        del parent[part]
