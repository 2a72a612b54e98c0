"""The two doors of the operator as seen from inside: what may be asked of the API server, and of the movers.

`cluster/client.py` and `cluster/movers.py` are the real ones; the fakes of the tests implement the same protocols and
are themselves tested against the real ones. Everything raises the kinds of `errors.py` and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sandhold.desired.plan import Fence, Reference
from sandhold.desired.world import Keeper, KubeObject, SlotHistory, StoreTrouble, Unknown


class Door(Protocol):
    """The API server."""

    async def get(self, reference: Reference) -> KubeObject:
        """Read one object; `NotFoundError` is a confirmed absence."""
        ...

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[KubeObject], str]:
        """Read all of a kind (paged inside), with the list's resourceVersion; items carry apiVersion and kind."""
        ...

    async def create(self, document: KubeObject) -> KubeObject:
        """POST. `ConflictError` when the name is taken."""
        ...

    async def apply(self, document: KubeObject) -> KubeObject:
        """Server-side apply with our field manager, forced."""
        ...

    async def replace(self, document: KubeObject) -> KubeObject:
        """PUT; `document` carries uid and resourceVersion, and a difference is `ConflictError`."""
        ...

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> KubeObject:
        """JSON patch; a failing `test` operation is `ConflictError`."""
        ...

    async def delete(
        self, reference: Reference, uid: str, resource_version: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """DELETE with preconditions; another UID is `ConflictError`, an absent object `NotFoundError`."""
        ...


class Movers(Protocol):
    """The movers, all of them behind one face: any mover serves any keeper and any question about the store."""

    def keepers(self) -> Mapping[str, Keeper]:
        """Every keeper that a connected mover reported, by pod UID."""
        ...

    def subscribe(self, callback: Callable[[str], None]) -> None:
        """Call back with the pod UID whenever what is known of its keeper changes."""
        ...

    async def history(self, store: str, slot: str) -> SlotHistory | StoreTrouble | Unknown:
        """What the store holds of a slot; `Unknown` when no mover answered in time."""
        ...

    async def fence(self, fence: Fence) -> StoreTrouble | None:
        """Write the fence manifest; None when it is there."""
        ...

    async def order(self, pod_uid: str, order: Mapping[str, Any]) -> None:
        """Pass an order to the mover that holds this keeper; `UnavailableError` when none does."""
        ...
