"""What an archive follows: found out before its keeper hears `welcome`, so before it looks at the first file.

An archive that its pod stored after that was made after this one was begun. Listed any later, one stored while this one
waited in a buffer for its turn would count as older, and a state that was given up would get the number above it.

Looks have threads of their own, and a bound for each store: neither transfers nor a store that hangs hold up the rest.
Blocking work alone runs there; a look that takes too long is a store that is away.
"""

import asyncio

from sandhold.mover.grant import Grant
from sandhold.mover.limits import Limits
from sandhold.mover.stores import Stores
from sandhold.mover.threads import Threads
from sandhold.snapshots.manifest import Generation
from sandhold.snapshots.stores.protocol import StoreUnavailableError


class Beginnings:
    """Looks at epochs to which somebody is about to add an archive."""

    def __init__(self, stores: Stores, threads: Threads, limits: Limits) -> None:
        self._stores = stores
        self._threads = threads
        self._limits = limits
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def of(self, grant: Grant) -> Generation:
        """The newest archive of the grant's epoch, within the time for which a keeper waits for `welcome`."""
        turns = self._turns.setdefault(grant.store, asyncio.Semaphore(self._limits.looks_per_store))
        try:
            async with asyncio.timeout(self._limits.look_seconds):
                await turns.acquire()
                look = asyncio.create_task(self._threads.run(self._newest, grant))
                # A thread cannot be cancelled: it gives its place back when it is done, whoever waits for it.
                look.add_done_callback(lambda done: _give_back(turns, done))
                return await asyncio.shield(look)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"store {grant.store} did not say within {self._limits.look_seconds:g} s what it holds of the slot"
            ) from error

    def _newest(self, grant: Grant) -> Generation:
        return self._stores.get(grant.store, grant.installation).catalogue(grant.slot).newest(grant.epoch)


def _give_back(turns: asyncio.Semaphore, look: "asyncio.Task[Generation]") -> None:
    turns.release()
    if not look.cancelled():
        look.exception()  # whoever still waited was told
