"""What the operator needs of a watch library, and no more: events in, one object at a time, until it fails.

`kopf_pump.py` is the only implementation and the only module that knows kopf; a test or another library can take its
place. Lists are not its business: `relist.py` takes them through the door.
"""

from dataclasses import dataclass
from typing import Protocol

from sandhold import names
from sandhold.cluster.installation import API_SERVICE, SERVICE_OF_SLICE
from sandhold.cluster.kinds import (
    ACCOUNT,
    BUDGET,
    ENDPOINT_SLICE,
    NODE,
    POD,
    POLICY,
    RESOURCES,
    RUNTIME_CLASS,
    SANDBOX,
    SESSION,
    SNAPSHOT,
    Resource,
)
from sandhold.desired.world import KubeObject
from sandhold.errors import SandholdError


class WatchFailedError(SandholdError):
    """A watch ended in a way that its library does not mend: the process starts anew."""


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind that is watched, and which of its objects."""

    resource: Resource
    selector: str | None = None


class EventSink(Protocol):
    """Where events go. Nothing in it may block."""

    def changed(self, obj: KubeObject, *, is_listed: bool) -> None:
        """An object as it is now; `is_listed` when it came from the library's own list."""
        ...

    def deleted(self, obj: KubeObject) -> None:
        """An object that is gone, as it was last."""
        ...


class EventPump(Protocol):
    """A watch library."""

    async def run(self, sink: EventSink) -> None:
        """Deliver events until cancelled; WatchFailedError when that is not possible any more."""
        ...


def watched_kinds(installation: str) -> tuple[WatchedKind, ...]:
    """Everything that passes are made of. Foreign objects never reach this process: the server selects."""
    ours = f"{names.LABEL_INSTALLATION}={installation}"
    services = f"{SERVICE_OF_SLICE} in ({API_SERVICE.name},{names.MOVER_SERVICE})"
    selectors = {
        RUNTIME_CLASS: None,
        NODE: None,
        ENDPOINT_SLICE: services,
        SANDBOX: None,
        POLICY: ours,
        ACCOUNT: ours,
        BUDGET: ours,
        SNAPSHOT: None,
        POD: ours,
        SESSION: None,
    }
    return tuple(WatchedKind(RESOURCES[kind], selector) for kind, selector in selectors.items())
