"""The parts of an operator put together, on any door and any movers: the program does it with the real ones.

Nothing runs here. Tests take the same parts, put fakes before the two doors, and make single passes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sandhold.backends.model import Backends
from sandhold.cluster.apply import Applier
from sandhold.cluster.cache import Cache
from sandhold.cluster.certificates import Authority
from sandhold.cluster.door import Door, Movers
from sandhold.cluster.installation import InstallationFacts
from sandhold.cluster.memory import Memory
from sandhold.cluster.observe import Observer
from sandhold.cluster.orders import Orders
from sandhold.cluster.ours import may_be_seen
from sandhold.cluster.reading import INDICES
from sandhold.cluster.recorder import Recorder
from sandhold.cluster.writes import Writes
from sandhold.desired.sandbox import plan_sandbox
from sandhold.desired.session import plan_session
from sandhold.handlers.pump import WatchedKind, watched_kinds
from sandhold.handlers.relist import Relister
from sandhold.handlers.routing import Router
from sandhold.handlers.sweeper import Sweeper
from sandhold.handlers.workers import Workers
from sandhold.heartbeats import Heartbeats
from sandhold.reconcile import Reconciler
from sandhold.settings import OperatorSettings
from sandhold.workqueue import WorkQueue


def utc_now() -> datetime:
    """The clock of worlds."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Parts:
    """One operator, not running yet."""

    cache: Cache
    queue: WorkQueue
    memory: Memory
    facts: InstallationFacts
    observer: Observer
    reconciler: Reconciler
    router: Router
    relister: Relister
    workers: Workers
    sweeper: Sweeper
    heartbeats: Heartbeats
    kinds: tuple[WatchedKind, ...]


def assemble(  # noqa: PLR0913 - everything that an operator is made of
    *,
    door: Door,
    movers: Movers,
    settings: OperatorSettings,
    backends: Callable[[], Backends],
    authority: Authority,
    clock: Callable[[], datetime] = utc_now,
    monotonic: Callable[[], float] = time.monotonic,
    leads: Callable[[], bool] = lambda: True,
    heartbeats: Heartbeats | None = None,
) -> Parts:
    """Put an operator together. It changes nothing while it does not lead. Keeper reports wake their sessions."""
    heartbeats = heartbeats or Heartbeats(monotonic)
    cache, queue, memory = Cache(INDICES, monotonic, may_be_seen), WorkQueue(clock=monotonic), Memory()
    facts = InstallationFacts(door, cache, settings, backends, authority.certificate_pem.decode())
    observer = Observer(
        door=door, movers=movers, cache=cache, facts=facts, memory=memory, clock=clock, monotonic=monotonic
    )
    recorder = Recorder(door, settings.pod_name, monotonic)
    orders = Orders(movers, observer.histories, memory, authority.grant_key, monotonic)
    applier = Applier(
        cache, memory, Writes(door, cache, memory, monotonic), orders, recorder, leads=leads, clock=monotonic
    )
    reconciler = Reconciler(observer, applier, plan_session, plan_sandbox, monotonic)
    router = Router(cache, queue, memory, monotonic)
    kinds = watched_kinds(backends().installation_id)
    movers.subscribe(router.keeper_changed)
    return Parts(
        cache=cache,
        queue=queue,
        memory=memory,
        facts=facts,
        observer=observer,
        reconciler=reconciler,
        router=router,
        relister=Relister(door, cache, router, kinds, settings.resync_seconds, heartbeats=heartbeats, clock=monotonic),
        workers=Workers(queue, reconciler, cache, recorder, heartbeats=heartbeats),
        sweeper=Sweeper(
            door=door,
            recorder=recorder,
            settings=settings,
            installation_id=lambda: backends().installation_id,
            leads=leads,
            keepers=movers.keepers,
            clock=clock,
            monotonic=monotonic,
        ),
        heartbeats=heartbeats,
        kinds=kinds,
    )
