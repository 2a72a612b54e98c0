"""How every model of the API behaves: camelCase on the wire, frozen, tolerant of fields it does not know.

A `Rule` says one claim twice, as CEL for the API server and as Python for whoever builds or reads objects here, with
one sentence for both; a test against a real API server holds the two together. `ListMap` is the same for lists whose
items have a key. Neither says anything about Kubernetes' schema dialect: that is `crd.py`'s business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """A claim about one value: `cel` for the API server, `holds` for Python, `message` for the person who broke it.

    A rule without `holds` compares with the old object (CEL's `oldSelf`), which only the API server has. `field` is the
    path below the value that the API server shall name.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    field: str | None = None
    reason: str | None = None

    def check(self, value: Any) -> Any:
        """The value itself; `ValueError` with the rule's sentence when the claim does not hold."""
        if self.holds is not None and not self.holds(value):
            raise ValueError(self.message)
        return value

    def document(self) -> dict[str, str]:
        """The rule as an item of `x-kubernetes-validations`."""
        parts = {"rule": self.cel, "message": self.message, "fieldPath": self.field, "reason": self.reason}
        return {key: part for key, part in parts.items() if part is not None}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return add_rules(handler(schema), (self,))


@dataclass(frozen=True, slots=True)
class ListMap:
    """A list whose items are told apart by `keys`: no duplicates, and server-side apply merges it item by item."""

    keys: tuple[str, ...]

    def check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """The items themselves; `ValueError` when two have the same key."""
        seen = set()
        for item in items:
            key = tuple(getattr(item, name) for name in self.keys)
            if key in seen:
                raise ValueError(f"two items have the same {' and '.join(self.keys)}: {', '.join(map(str, key))}")
            seen.add(key)
        return items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        keys = [to_camel(key) for key in self.keys]
        return {**handler(schema), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. Priority 1 shows with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What a CRD says of a kind beside its schema."""

    plural: str
    short_name: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()


def add_rules(schema: Mapping[str, Any], rules: tuple[Rule, ...]) -> dict[str, Any]:
    """The schema with the rules after those that it already has."""
    if not rules:
        return dict(schema)
    return {**schema, VALIDATIONS: [*schema.get(VALIDATIONS, []), *(rule.document() for rule in rules)]}


class ApiModel(BaseModel):
    """A part of an object. Reading tolerates unknown fields, since an older operator meets newer objects."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    """Claims about the whole value, checked after those of its fields."""

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return add_rules(handler.resolve_ref_schema(handler(schema)), cls.rules)

    def wire(self) -> dict[str, Any]:
        """The JSON form: camelCase, without what is not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
