"""`docs/reference/reasons.md`: conditions, refusals and Events, from the tables of `reasons.py`."""

from generate.tables import page, table
from sandhold import reasons

_INTRODUCTION = (
    "What cannot be guaranteed is refused, with a code for programs and the next step for a person. The code stands in "
    "`status.refusal.code`; its CamelCase form is the reason of the condition and of the Event."
)


def reasons_page() -> str:
    """The whole page."""
    refusals = [
        (f"`{code}`", f"`{reasons.camel_case(code)}`", explained.sentence, explained.action)
        for code, explained in reasons.REFUSALS.items()
    ]
    parts = [
        _INTRODUCTION,
        "## Refusals",
        table(("code", "reason", "what it means", "what to do"), refusals),
        "## Conditions",
        table(("type", "true means"), [(f"`{name}`", text) for name, text in reasons.CONDITION_TYPES.items()]),
        "## Reasons of conditions, beside the refusals'",
        table(("reason", "what it means"), [(f"`{name}`", text) for name, text in reasons.REASONS.items()]),
        "## Events, beside the refusals' and the stops'",
        table(("reason", "what happened"), [(f"`{name}`", text) for name, text in reasons.EVENT_REASONS.items()]),
    ]
    return page("Conditions, refusals, Events", "hack/generate/reference from operator/sandhold/reasons.py", parts)
