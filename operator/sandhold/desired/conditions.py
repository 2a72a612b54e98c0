"""Claims into conditions: fixed order, and a transition time that moves only when the status of a condition moves."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandhold.api.meta import Condition, ConditionStatus
from sandhold.reasons import CONDITION_TYPES, Refusal

_ORDER = {name: index for index, name in enumerate(CONDITION_TYPES)}
LONGEST_MESSAGE = 1500
_ENDS = (".", "!", "?", "…")


@dataclass(frozen=True, slots=True)
class Claim:
    """One condition before it is put beside the one that is already there."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


def yes(name: str, reason: str, message: str) -> Claim:
    """It holds."""
    return Claim(name, "True", reason, message)


def no(name: str, reason: str, message: str) -> Claim:
    """It does not hold."""
    return Claim(name, "False", reason, message)


def unknown(name: str, reason: str, message: str) -> Claim:
    """Nobody can tell yet."""
    return Claim(name, "Unknown", reason, message)


def refused(name: str, refusal: Refusal) -> Claim:
    """It does not hold because of a refusal."""
    return Claim(name, "False", refusal.reason, sentences(refusal.message, refusal.action))


def sentences(*parts: str) -> str:
    """Sentences one after the other, each with its full stop."""
    return " ".join(part if part.endswith(_ENDS) else f"{part}." for part in parts if part)


def settle(
    previous: Iterable[Condition], claims: Iterable[Claim], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions that say what the claims say; a type that no claim mentions is gone."""
    before = {condition.type: condition for condition in previous}
    ordered = sorted(claims, key=lambda claim: _ORDER.get(claim.type, len(_ORDER)))
    return tuple(_condition(before.get(claim.type), claim, generation, now) for claim in ordered)


def find(conditions: Iterable[Condition], name: str) -> Condition | None:
    """The condition of a type, if it is there."""
    return next((condition for condition in conditions if condition.type == name), None)


def newly_said(before: Iterable[Condition], new: Mapping[str, Any] | None, name: str, reason: str) -> Iterator[str]:
    """The message of a condition that a new status gives for this reason, when the one before gave another."""
    known = find(before, name)
    if new is None or (known is not None and known.reason == reason):
        return
    yield from (one["message"] for one in new["conditions"] if (one["type"], one["reason"]) == (name, reason))


def printable(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """A foreign text in one bounded line: what a keeper or a store wrote is shown, never trusted."""
    text = text[: 2 * limit]
    if not text.isprintable():
        text = "".join(mark if mark.isprintable() else " " for mark in text)
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _condition(before: Condition | None, claim: Claim, generation: int, now: datetime) -> Condition:
    message = printable(claim.message)
    is_same = before is not None and before.status == claim.status
    if before is not None and is_same:
        said = (before.reason, before.message, before.observed_generation)
        if said == (claim.reason, message, generation):
            return before
    return Condition(
        type=claim.type,
        status=claim.status,
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before is not None and is_same else now,
        reason=claim.reason,
        message=message,
    )
