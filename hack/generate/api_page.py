"""`docs/reference/api.md`: every field of the three kinds, from the schemas that the API server gets."""

from collections.abc import Iterator
from typing import Any

from generate.tables import page, table
from sandhold import names
from sandhold.api.crd import KINDS, crd
from sandhold.api.model import VALIDATIONS

_INTRODUCTION = (
    f"All kinds are namespaced, of group `{names.GROUP}`, version `{names.VERSION}` and category `{names.CATEGORY}`. "
    "A field that is not listed here is refused by kubectl and dropped by the API server. "
    "`kubectl explain asb.spec.workspace` says the same as this page."
)


def api_page() -> str:
    """The whole page."""
    kinds = [_kind(kind.__name__, crd(kind)) for kind in KINDS]
    return page("API", "hack/generate/reference from operator/sandhold/api/", [_INTRODUCTION, *kinds])


def _kind(name: str, document: dict[str, Any]) -> str:
    spec = document["spec"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    sections = [f"## {name}", f"Short name `{spec['names']['shortNames'][0]}`. {schema['description']}"]
    for part in ("spec", "status"):
        top = schema["properties"][part]
        rows = [
            row for key, field in top.get("properties", {}).items() for row in _rows(f"{part}.{key}", field, top, key)
        ]
        sections.append(f"### {name} {part}")
        sections.append(table(("field", "type", "default", "meaning", "bounds"), rows))
        rules = list(_rules(part, top))
        if rules:
            sections.append("Refused by the API server when not so:")
            sections.append("\n".join(f"- `{path}`: {message}" for path, message in rules))
    return "\n\n".join(sections)


def _rows(path: str, field: dict[str, Any], parent: dict[str, Any], key: str) -> Iterator[tuple[str, ...]]:
    default = field.get("default")
    shown = "required" if key in parent.get("required", []) else "" if default in (None, {}) else f"`{_plain(default)}`"
    yield f"`{path}`", _type(field), shown, field["description"], _bounds(field)
    below, suffix = (field["items"], "[]") if "items" in field else (field, "")
    for name, member in below.get("properties", {}).items():
        yield from _rows(f"{path}{suffix}.{name}", member, below, name)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in field:
        return " or ".join(f"`{choice}`" for choice in field["enum"])
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _bounds(field: dict[str, Any]) -> str:
    said = []
    for low, high, unit in (
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
        ("minimum", "maximum", ""),
    ):
        if high in field:
            said.append(f"{field[low]} to {field[high]}{unit}" if low in field else f"at most {field[high]}{unit}")
        elif low in field:
            said.append(f"at least {field[low]}{unit}")
    if "x-kubernetes-list-map-keys" in field:
        said.append(f"no two of the same {', '.join(field['x-kubernetes-list-map-keys'])}")
    return "; ".join(said)


def _rules(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for rule in schema.get(VALIDATIONS, []):
        yield f"{path}{rule.get('fieldPath', '')}", rule["message"]
    for name, member in schema.get("properties", {}).items():
        yield from _rules(f"{path}.{name}", member)
    if "items" in schema:
        yield from _rules(f"{path}[]", schema["items"])
