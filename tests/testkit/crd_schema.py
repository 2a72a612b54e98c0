"""What the API server does to objects of our kinds by their schema: fields vanish, defaults appear, faults are 422.

The generated CRDs are read, so a status field that no schema knows is lost here as it is in a cluster. CEL rules are
not evaluated. A null where none may be counts as not given.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sandhold.errors import InvalidError
from testkit.documents import copied

CRDS = Path(__file__).parents[2] / "crds"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


@cache
def schemas() -> Mapping[str, Mapping[str, Any]]:
    """The schema of each kind of ours."""
    found = {}
    for path in sorted(CRDS.glob("*.yaml")):
        crd = yaml.load(path.read_text(), yaml.CSafeLoader)
        found[crd["spec"]["names"]["kind"]] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def conformed(document: dict[str, Any]) -> dict[str, Any]:
    """The document as it would be stored; InvalidError where it would be refused."""
    schema = schemas().get(document["kind"])
    if schema is None:
        return document
    kept = {key: document[key] for key in ("apiVersion", "kind", "metadata")}
    rest = {key: value for key, value in document.items() if key not in kept}
    inner = {**schema, "properties": {key: schema["properties"][key] for key in ("spec", "status")}}
    return {**kept, **_conform(rest, inner, "")}


def _conform(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return value
    _check(value, schema, path)
    if isinstance(value, list):
        return [_conform(item, schema["items"], f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return _conform_object(value, schema, path)
    return value


def _conform_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    known = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    if extra:
        return {key: _conform(item, extra, f"{path}.{key}") for key, item in value.items()}
    result = {
        key: _conform(item, known[key], f"{path}.{key}")
        for key, item in value.items()
        if key in known and (item is not None or known[key].get("nullable"))
    }
    for key, field in known.items():
        if key not in result and "default" in field:
            result[key] = _conform(copied(field["default"]), field, f"{path}.{key}")
    missing = [key for key in schema.get("required", ()) if key not in result]
    if missing:
        raise InvalidError(f"{path}.{missing[0]}: Required value")
    return result


def _check(value: Any, schema: Mapping[str, Any], path: str) -> None:
    if value is None and schema.get("nullable"):
        return
    expected = schema.get("type")
    wrong = expected is not None and not isinstance(value, _TYPES[expected])
    if wrong or (expected == "integer" and isinstance(value, bool)):
        raise InvalidError(f"{path}: Invalid value: must be of type {expected}")
    if "enum" in schema and value not in schema["enum"]:
        raise InvalidError(f"{path}: Unsupported value: {value!r}")
    if isinstance(value, str):
        _check_bounds(len(value), schema.get("minLength"), schema.get("maxLength"), path)
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise InvalidError(f"{path}: Invalid value: should match {schema['pattern']}")
    if isinstance(value, list):
        _check_bounds(len(value), schema.get("minItems"), schema.get("maxItems"), path)
    if isinstance(value, int) and not isinstance(value, bool):
        _check_bounds(value, schema.get("minimum"), schema.get("maximum"), path)


def _check_bounds(value: int, lowest: int | None, highest: int | None, path: str) -> None:
    if lowest is not None and value < lowest:
        raise InvalidError(f"{path}: Invalid value: should be at least {lowest}")
    if highest is not None and value > highest:
        raise InvalidError(f"{path}: Too long or too much: may not be more than {highest}")
