"""One installation in memory: the fakes, the fixtures that every story needs, and operator processes that live and die.

The operator in here is the real one (observe, plan, apply, queue, cache), fed by the fake API server's watch. Time
passes only when nothing is left to do at the present moment, so a story takes as long as its passes take.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandhold import names
from sandhold.backends.model import Backends
from sandhold.cluster import certificates
from sandhold.desired.plan import Reference
from sandhold.settings import OperatorSettings
from testkit.clock import START, FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.fake_home import FakeHome
from testkit.faults import Faults, Killed
from testkit.object_store import Document
from testkit.operator_process import OperatorProcess

NAMESPACE = "research"
HOME = "sandhold-system"
AUTHORITY = certificates.make_authority(START, certificates.new_key(), Ed25519PrivateKey.generate())
STORE = {"type": "s3", "endpoint": "http://172.31.0.2:7070", "bucket": "workspaces"}
BACKENDS = Backends.model_validate(
    {
        "installation_id": "demo",
        "default_tier": "gvisor",
        "tiers": {
            "gvisor": {"runtime_class": "gvisor", "egress": {"cni": {}}, "default_image": "agent:1"},
            "runc": {"runtime_class": "runc", "egress": {"cni": {}}, "default_image": "agent:1"},
        },
        "stores": {"main": STORE},
    }
)
SETTINGS = OperatorSettings(namespace=HOME, keeper_image="sandhold-keeper:1")
MOST_STEPS = 5000
"""Passes and moments that one wait may take; a world that needs more does not settle."""


@dataclass
class WatchPolicy:
    """How the operator hears of changes."""

    delay: float = 0.0
    """Seconds until an event arrives."""
    loses: Callable[[int], bool] = field(default=lambda _: False)
    """Which events never arrive, by number."""
    relist_seconds: float = 300.0


class SmallWorld:
    """Everything together."""

    def __init__(self, faults: Faults | None = None, watch: WatchPolicy | None = None) -> None:
        self.clock = FakeClock()
        self.faults = faults or Faults()
        self.cluster = FakeCluster(self.clock, self.faults)
        self.home = FakeHome(self.cluster, self.clock, (AUTHORITY.grant_key.public_key(),))
        self.watch = watch or WatchPolicy()
        self.operator: OperatorProcess | None = None
        self.lives = 0
        self._events: deque[tuple[datetime, str, Document]] = deque()
        self._heard = 0
        self._relist_at = self.clock()
        self.cluster.objects.watch(self._note)
        _furnish(self.cluster)

    # --- what people do ----------------------------------------------------------------------------------------------

    def create(self, kind: str, name: str, spec: Document) -> None:
        """A user creates an object of ours."""
        self.cluster.objects.create(
            {
                "apiVersion": names.API_VERSION,
                "kind": kind,
                "metadata": {"namespace": NAMESPACE, "name": name},
                "spec": spec,
            }
        )

    def change(self, kind: str, name: str, mutate: Callable[[Document], None]) -> None:
        """A user changes one."""
        self.cluster.objects.change(Reference(names.API_VERSION, kind, NAMESPACE, name), mutate)

    def set_mode(self, name: str, mode: str) -> None:
        """A user suspends or resumes a session."""
        self.change("SandboxSession", name, lambda each: each["spec"].update(operatingMode=mode))

    def delete(self, kind: str, name: str) -> None:
        """A user deletes one."""
        self.cluster.objects.delete(Reference(names.API_VERSION, kind, NAMESPACE, name))

    def cordon(self, name: str, *, is_cordoned: bool = True) -> None:
        """An administrator cordons a node, or lets it take pods again."""
        taints = [{"key": names.TAINT_CORDONED, "effect": "NoSchedule"}] if is_cordoned else []
        said = {"unschedulable": is_cordoned, "taints": taints}
        self.cluster.objects.change(Reference("v1", "Node", "", name), lambda each: each["spec"].update(said))

    # --- what can be seen --------------------------------------------------------------------------------------------

    def session(self, name: str) -> Document | None:
        """A session, if it is there; for reading only."""
        return self.cluster.objects.look(Reference(names.API_VERSION, "SandboxSession", NAMESPACE, name))

    def phase(self, name: str) -> str | None:
        """The phase of a session."""
        session = self.session(name)
        return None if session is None else session.get("status", {}).get("phase")

    def has_pods(self) -> bool:
        """Whether there is any pod."""
        return self.cluster.objects.count("Pod") > 0

    def writes(self) -> int:
        """How many calls have changed something, or tried to."""
        return len(self.faults.calls)

    # --- the passing of time -----------------------------------------------------------------------------------------

    async def run_until(self, claim: Callable[[], bool], seconds: float = 900) -> None:
        """Let everything happen until a claim holds; a world that never gets there fails and says where it is."""
        end = self.clock() + timedelta(seconds=seconds)
        for _ in range(MOST_STEPS):
            if claim():
                return
            if not await self._step(end):
                break
            if self.defects:
                raise AssertionError(f"a defect:\n{self.describe()}") from self.defects[0]
        if not claim():
            raise AssertionError(f"the world came to rest elsewhere:\n{self.describe()}")

    async def rest(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.clock() + timedelta(seconds=seconds)
        for _ in range(MOST_STEPS):
            if not await self._step(end):
                self.clock.move_to(end)
                return
        raise AssertionError(f"the world does not come to rest:\n{self.describe()}")

    async def _step(self, end: datetime) -> bool:
        """Do one thing that is due, or let time pass to the next; False when nothing is left before the end."""
        if self.operator is None:
            await self._start_operator()
            return True
        if self._deliver() or self.home.agenda.act():
            return True
        try:
            if await self.operator.step():
                return True
        except Killed:
            self._kill()
            return True
        upcoming = min(self._upcoming(), default=None)
        if upcoming is None or upcoming > end:
            return False
        self.clock.move_to(upcoming)
        if self.clock() >= self._relist_at:
            await self._relist()
        return True

    def _upcoming(self) -> Iterator[datetime]:
        if self._events:
            yield self._events[0][0]
        if self.home.agenda.next_due is not None:
            yield self.home.agenda.next_due
        if self.operator is not None:
            wake = self.operator.next_wake
            if wake is not None:
                yield max(wake, self.clock() + timedelta(milliseconds=1))
        yield self._relist_at

    def _deliver(self) -> bool:
        if not self._events or self._events[0][0] > self.clock() or self.operator is None:
            return False
        _, event, document = self._events.popleft()
        self.operator.hear(event, document)
        return True

    def _note(self, event: str, document: Document) -> None:
        self._heard += 1
        if not self.watch.loses(self._heard):
            self._events.append((self.clock() + timedelta(seconds=self.watch.delay), event, document))

    def door(self) -> FakeCluster:
        """What the operator sees of the cluster."""
        return self.cluster

    async def _start_operator(self) -> None:
        self.lives += 1
        # What happened before this process began to watch, it learns from its lists alone.
        self._events.clear()
        self.operator = OperatorProcess(
            self.door(), self.home, self.clock, backends=lambda: BACKENDS, settings=SETTINGS, authority=AUTHORITY
        )
        await self.operator.start()
        self._relist_at = self.clock() + timedelta(seconds=self.watch.relist_seconds)

    async def _relist(self) -> None:
        assert self.operator is not None
        self._relist_at = self.clock() + timedelta(seconds=self.watch.relist_seconds)
        await self.operator.list_everything()

    @property
    def defects(self) -> list[BaseException]:
        """What the operator living now raised and nobody foresaw."""
        return [] if self.operator is None else self.operator.defects

    def _kill(self) -> None:
        assert self.operator is not None
        self.operator.end()
        self.home.forget_subscribers()
        self.operator = None

    def describe(self) -> str:
        """All that helps to see why a story did not end as it should."""
        lines = [
            *self.home.violations,
            f"time {self.clock()}, faults {self.faults.raised}, last calls {self.faults.calls[-12:]}",
        ]
        for kind in ("AgentSandbox", "SandboxSession", "SandboxSnapshot", "Pod"):
            for each in self.cluster.objects.all(kind):
                metadata = each["metadata"]
                lines.append(
                    f"{kind} {metadata['name']} deleting={'deletionTimestamp' in metadata} "
                    f"finalizers={metadata.get('finalizers', [])} status={each.get('status')}"
                )
        lines += [f"keeper {uid} {keeper.orders} {keeper.report}" for uid, keeper in self.home.pods.items()]
        lines.append(f"store {[(place, sorted(stored)) for place, stored in self.home.store.slots.items()]}")
        if self.operator is not None:
            lines += [f"error {error}" for error in self.operator.errors[-8:]]
        return "\n".join(lines)


def _furnish(cluster: FakeCluster) -> None:
    """What an installation finds in its cluster."""
    for name in ("default", HOME, NAMESPACE):
        cluster.add_namespace(name)
    for namespace, name, address in (("default", "kubernetes", "10.96.0.1"), (HOME, names.MOVER_SERVICE, "10.96.0.7")):
        cluster.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"clusterIP": address},
            }
        )
    for namespace, name, address, port in (
        ("default", "kubernetes", "172.31.0.10", 6443),
        (HOME, names.MOVER_SERVICE, "10.244.0.5", names.PORT_OPERATORS),
    ):
        cluster.objects.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": [{"port": port}],
            }
        )
    for name in ("node-1", "node-2"):
        cluster.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "spec": {},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    for name, handler in (("gvisor", "runsc"), ("runc", "runc")):
        cluster.objects.create(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": name},
                "handler": handler,
            }
        )
