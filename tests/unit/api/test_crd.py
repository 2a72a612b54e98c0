"""What a CRD document must be, and what the translation refuses. The golden files are crds/ themselves."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sandhold.api.crd import KINDS, UnsayableError, crd, translate
from sandhold.api.model import VALIDATIONS, ApiModel, Rule


def schemas(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield where, schema
    for name, member in schema.get("properties", {}).items():
        yield from schemas(member, f"{where}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schemas(schema[key], f"{where}[]")


def every_schema() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in KINDS:
        version = crd(kind)["spec"]["versions"][0]
        yield from schemas(version["schema"]["openAPIV3Schema"], kind.__name__)


def translated(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema(by_alias=True)
    return translate(whole, whole.get("$defs", {}), model.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_has_what_people_use(kind: Any) -> None:
    document = crd(kind)
    version = document["spec"]["versions"][0]
    assert document["metadata"]["name"] == f"{document['spec']['names']['plural']}.sandhold.dev"
    assert document["spec"]["names"]["categories"] == ["sandhold"]
    assert version["subresources"] == {"status": {}}
    assert [column["name"] for column in version["additionalPrinterColumns"]][-1] == "Age"


def test_nothing_is_left_of_json_schema_that_kubernetes_does_not_know() -> None:
    known = {
        "description", "type", "format", "enum", "default", "required", "properties", "additionalProperties", "items",
        "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "maxProperties", VALIDATIONS,
        "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string",
    }  # fmt: skip
    for where, schema in every_schema():
        assert set(schema) <= known, where
        assert not ("properties" in schema and "additionalProperties" in schema), where


def test_every_field_is_described_and_every_text_and_list_is_bounded() -> None:
    seen = 0
    for where, schema in every_schema():
        for name, member in schema.get("properties", {}).items():
            seen += 1
            assert name == "metadata" or member["description"].endswith("."), f"{where}.{name}"
        if where.count(".") and schema.get("type") == "array":
            assert "maxItems" in schema, where
    assert seen > 80


def test_every_rule_has_a_sentence_of_its_own_that_names_its_field() -> None:
    rules = [(where, rule) for where, schema in every_schema() for rule in schema.get(VALIDATIONS, [])]
    assert len(rules) > 20
    for where, rule in rules:
        field = (where + rule.get("fieldPath", "")).replace("[]", "").split(".")[-1]
        assert field in rule["message"], (where, rule)


def test_values_may_be_left_out_without_a_null_type() -> None:
    class Model(ApiModel):
        text: Annotated[str, Field(max_length=3)] | None = Field(default=None, description="A text.")

    assert translated(Model) == {
        "type": "object",
        "properties": {"text": {"description": "A text.", "type": "string", "maxLength": 3}},
    }


def test_rules_of_a_type_and_of_its_use_are_both_kept() -> None:
    class Inner(ApiModel):
        rules = (Rule(cel="true", message="inner"),)

        number: int = Field(description="A number.")

    class Outer(ApiModel):
        inner: Annotated[Inner, Rule(cel="true", message="outer")] = Field(description="One.")

    rules = translated(Outer)["properties"]["inner"][VALIDATIONS]
    assert [rule["message"] for rule in rules] == ["inner", "outer"]


@pytest.mark.parametrize(
    ("annotation", "complaint"),
    [
        (Annotated[int, Field(gt=0)], "exclusiveMinimum"),
        (Annotated[float, Field(multiple_of=2)], "multipleOf"),
        (tuple[int, str], "prefixItems"),
        (set[int], "uniqueItems"),
        (int | bool, "several shapes"),
        (str, "maxLength"),
        (tuple[int, ...], "maxItems"),
        (dict[str, int], "maxProperties"),
    ],
)
def test_what_a_crd_cannot_say_is_refused(annotation: Any, complaint: str) -> None:
    model = type("Model", (BaseModel,), {"__annotations__": {"f": annotation}, "f": Field(description="A field.")})
    with pytest.raises(UnsayableError, match=complaint):
        translated(model)


def test_a_field_without_a_description_is_refused() -> None:
    class Model(BaseModel):
        number: int

    with pytest.raises(UnsayableError, match=r"Model\.number has no description"):
        translated(Model)


def test_a_constant_becomes_an_enumeration() -> None:
    class Model(BaseModel):
        """A model."""

        word: Literal["only"] = Field(description="A word.")

    assert translated(Model)["properties"]["word"]["enum"] == ["only"]
