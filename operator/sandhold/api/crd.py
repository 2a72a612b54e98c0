"""Models to CustomResourceDefinitions. Pydantic speaks JSON Schema 2020-12; Kubernetes wants a structural schema.

References are inlined, optional fields lose their null type, titles go, constants become enumerations. What the dialect
cannot say is refused loudly (`UnsayableError`), and so is a field without description or bound: both would be noticed
by users only. Rules in CEL come from the models (`model.Rule`). Nothing here talks to a cluster.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from sandhold import names
from sandhold.api.model import VALIDATIONS, Column, KindFacts
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.api.snapshot import SandboxSnapshot

Schema = dict[str, Any]
KINDS: tuple[type[AgentSandbox] | type[SandboxSession] | type[SandboxSnapshot], ...] = (
    AgentSandbox,
    SandboxSession,
    SandboxSnapshot,
)

_KEPT = (
    "description", "type", "format", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "maxProperties", "required", VALIDATIONS, "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string",
)  # fmt: skip
_TRANSLATED = ("title", "$ref", "$defs", "anyOf", "const", "properties", "items", "additionalProperties")


class UnsayableError(Exception):
    """A model says something that a CRD cannot, or leaves out something that it must say."""


def crd(kind: type[AgentSandbox] | type[SandboxSession] | type[SandboxSnapshot]) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    facts = kind.facts
    name = kind.__name__
    version: dict[str, Any] = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": kind_schema(kind)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in facts.columns],
    }
    if facts.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in facts.selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{facts.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": _names(name, facts),
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _names(kind: str, facts: KindFacts) -> dict[str, Any]:
    return {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": facts.plural,
        "singular": kind.lower(),
        "shortNames": [facts.short_name],
        "categories": [names.CATEGORY],
    }


def _column(column: Column) -> dict[str, Any]:
    document: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        document["priority"] = column.priority
    return document


def kind_schema(kind: type[BaseModel]) -> Schema:
    """The schema of a kind: the API server owns apiVersion, kind and metadata; spec and status are ours."""
    whole = kind.model_json_schema(by_alias=True)
    definitions = whole.get("$defs", {})
    parts = {
        name: translate(whole["properties"][name], definitions, f"{kind.__name__}.{name}")
        for name in ("spec", "status")
    }
    parts["status"].pop("default", None)
    return {
        "description": whole["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{names.API_VERSION}."},
            "kind": {"type": "string", "description": f"{kind.__name__}."},
            "metadata": {"type": "object"},
            **parts,
        },
    }


def translate(schema: Mapping[str, Any], definitions: Mapping[str, Any], where: str) -> Schema:
    """One schema and all below it in the CRD's dialect. `where` is for the error message."""
    source = _without_null(_inlined(schema, definitions), definitions, where)
    unknown = [key for key in source if key not in _KEPT and key not in _TRANSLATED]
    if unknown:
        raise UnsayableError(f"{where}: a CRD cannot say {', '.join(unknown)}")
    target = {key: source[key] for key in _KEPT if key in source}
    if "const" in source:
        target["enum"] = [source["const"]]
    if target.get("default", ...) in (None, "", [], {}):
        del target["default"]  # the same as leaving the field out, and it would show up in every stored object
    if source.get("properties"):
        _members(source, target, definitions, where)
    elif "additionalProperties" in source:
        _entries(source, target, definitions, where)
    if "items" in source:
        target["items"] = translate(source["items"], definitions, f"{where}[]")
    _require_bounds(target, where)
    return _ordered(target)


def _inlined(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return dict(schema)
    target = dict(definitions[reference.removeprefix("#/$defs/")])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    rules = [*target.get(VALIDATIONS, []), *beside.get(VALIDATIONS, [])]
    return {**target, **beside, **({VALIDATIONS: rules} if rules else {})}


def _without_null(schema: dict[str, Any], definitions: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`X or null` as X: in a CRD an optional field is one that is not required."""
    if "anyOf" not in schema or schema.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in schema.items() if key != "anyOf"}
    choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1:
        raise UnsayableError(f"{where}: a CRD cannot say that a value has one of several shapes")
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    inner = _without_null(_inlined(choices[0], definitions), definitions, where)
    return {**inner, **beside}


def _members(source: Mapping[str, Any], target: Schema, definitions: Mapping[str, Any], where: str) -> None:
    target["properties"] = {}
    for name, member in source["properties"].items():
        place = f"{where}.{name}"
        translated = translate(member, definitions, place)
        if not translated.get("description"):
            raise UnsayableError(f"{place} has no description")
        target["properties"][name] = translated


def _entries(source: Mapping[str, Any], target: Schema, definitions: Mapping[str, Any], where: str) -> None:
    if not isinstance(source["additionalProperties"], Mapping):
        raise UnsayableError(f"{where}: additionalProperties must be a schema; unknown fields are pruned anyway")
    target["additionalProperties"] = translate(source["additionalProperties"], definitions, f"{where}{{}}")


def _require_bounds(schema: Schema, where: str) -> None:
    """Every text, list and map has a bound: objects stay small, and the API server can estimate what a rule costs."""
    kind = schema.get("type")
    if kind == "object" and "default" in schema:
        schema["default"] = {}  # the defaults below it are filled in by the API server
    text_is_bounded = "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
    if kind == "string" and not text_is_bounded:
        raise UnsayableError(f"{where} has no maxLength")
    if kind == "array" and "maxItems" not in schema:
        raise UnsayableError(f"{where} has no maxItems")
    if "additionalProperties" in schema and "maxProperties" not in schema:
        raise UnsayableError(f"{where} has no maxProperties")
    if kind == "integer":
        schema["format"] = "int64"


def _ordered(schema: Schema) -> Schema:
    order = (
        "description",
        "type",
        "format",
        "enum",
        "default",
        "required",
        "properties",
        "additionalProperties",
        "items",
    )
    first = {key: schema[key] for key in order if key in schema}
    return {**first, **{key: value for key, value in schema.items() if key not in first}}
