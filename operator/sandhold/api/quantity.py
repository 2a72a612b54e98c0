"""Kubernetes quantities (`1Gi`, `500m`, `2`): what is one, and how much it is. Exact; never a float.

On the wire a quantity may also be a whole number. Here it is always the text that the API server would show.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from sandhold.api.model import Rule
from sandhold.api.texts import cel_text

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_FORM = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]|)")
LONGEST = 32


@lru_cache(maxsize=1024)  # a pass asks for a dozen, and hardly ever for new ones
def quantity_value(text: str) -> Fraction:
    """How much a quantity is, exactly; `ValueError` for what is none. Negative ones are none here."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 1Gi, 500m or 2")
    digits, suffix = match.groups()
    number = Fraction(f"0{digits}" if digits.startswith(".") else digits.rstrip("."))
    if suffix in _BINARY:
        return number * Fraction(1 << (10 * _BINARY[suffix]))
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * (Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent))


def quantity_bytes(text: str) -> int:
    """A quantity as whole bytes, rounded up."""
    return -int(-quantity_value(text) // 1)


def is_quantity(text: str) -> bool:
    """Whether the text is a quantity."""
    return _FORM.fullmatch(text) is not None


def cel_is_quantity(text: str) -> str:
    """The same claim in CEL about a string expression. The form is ours, so that both sides agree on every text."""
    return f"{text}.matches({cel_text(f'^(?:{_FORM.pattern})$')}) && isQuantity({text})"


def _number_to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _sized(text: str) -> bool:
    return is_quantity(text) and quantity_value(text) >= 1


_WIRE = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": LONGEST}

Quantity = Annotated[str, BeforeValidator(_number_to_text), Field(max_length=LONGEST), WithJsonSchema(_WIRE)]
"""A quantity whose form the model around it checks with `Rule`s of its own."""


def size_rule(field: str) -> Rule:
    """The claim that a field is a size of at least one byte."""
    return Rule(
        cel=f"{cel_is_quantity('string(self)')} && quantity(string(self)).compareTo(quantity('1')) >= 0",
        message=f"{field} must be a quantity of at least one byte, such as 512Mi or 2Gi",
        holds=_sized,
    )
