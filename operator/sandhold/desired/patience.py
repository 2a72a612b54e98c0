"""How long things are waited for, and from when on a wait is worth a word in status."""

from collections.abc import Iterable

from sandhold.desired import conditions
from sandhold.desired.situation import Situation
from sandhold.reasons import RECONCILING

UNKNOWN_SECONDS = 5.0
"""Until the next look when a read failed."""
WAIT_SECONDS = 2.0
"""Until the next look at something that is usually there within moments."""
REFUSED_SECONDS = 15.0
"""How often a write that the API server refused is tried again: a quota may have room by then."""
PATIENCE_SECONDS = 10
"""What is usually there within moments is waited for so long before status speaks of it."""
SILENCE_SECONDS = 20
"""A keeper that runs, and does not call home for so long, is in trouble."""
LONGEST_WAIT = 60.0


def is_patient(situation: Situation) -> bool:
    """Whether what the operator is at began only moments ago."""
    found = conditions.find(situation.status.conditions, RECONCILING)
    if found is None or found.status != "True":
        return True
    return situation.seconds_since(found.last_transition_time) < PATIENCE_SECONDS


def earliest(*waits: float | None) -> float | None:
    """The shortest of some waits; None when there is none."""
    return min((wait for wait in waits if wait is not None), default=None)


def first_of(moments: Iterable[float | None], latest: float = LONGEST_WAIT) -> float:
    """The first of some moments that are still to come, in seconds from now; never a busy loop."""
    ahead = [moment for moment in moments if moment is not None and moment > 0]
    return max(min([*ahead, latest]), 0.1)
