"""What is beyond the operator's two doors, in memory: kubelet, keepers and movers, on a clock that tests move.

A pod that is created becomes Running, its keeper calls home and obeys orders; a deleted pod ends. What must never
happen is noted as it happens (`violations`): two pods of one session at once, content gone without an archive.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sandhold import names
from sandhold.desired.plan import Fence
from sandhold.desired.world import Keeper, SlotHistory, StoreTrouble, Unknown
from sandhold.errors import ConflictError, ForbiddenError, UnavailableError
from testkit.clock import Agenda, FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.fake_keeper import Behaviour, FakeKeeper, Surroundings
from testkit.fake_store import FakeStore
from testkit.object_store import Document, reference_to


class FakeHome:
    """Implements `sandhold.cluster.door.Movers`, and plays kubelet on a FakeCluster."""

    def __init__(self, cluster: FakeCluster, clock: FakeClock, grant_keys: tuple[Ed25519PublicKey, ...]) -> None:
        self.behaviour = Behaviour()
        self.store = FakeStore(clock)
        self.agenda = Agenda(clock)
        self.pods: dict[str, FakeKeeper] = {}
        self.violations: list[str] = []
        self._cluster = cluster
        self._around = Surroundings(clock, self.agenda, self.store, self.behaviour, grant_keys, self.violations)
        self._callbacks: list[Callable[[str], None]] = []
        self._going: set[str] = set()
        """Pods whose end has begun."""
        self._there_since = clock()
        """Since when the movers are there without a break."""
        cluster.objects.watch(self._seen)

    # --- what tests do -------------------------------------------------------------------------------------------

    def pod_of(self, session_uid: str) -> FakeKeeper:
        """The pod of a session."""
        return next(keeper for keeper in self.pods.values() if keeper.session_uid == session_uid)

    def write_file(self, session_uid: str, name: str) -> None:
        """The agent writes a file into its workspace."""
        keeper = self.pod_of(session_uid)
        assert keeper.report.agent_state == "Running", "only an agent that runs can write"
        keeper.files.add(name)

    def excuse(self, session_uid: str) -> FakeKeeper:
        """What the workspace holds now may be lost: by an accident, or because somebody said so."""
        keeper = self.pod_of(session_uid)
        keeper.was_opened = False
        return keeper

    def lose_pod(self, session_uid: str) -> None:
        """The node is gone, and with it the pod and its workspace."""
        self._cluster.objects.vanish(reference_to(self.excuse(session_uid).pod))

    def movers_come_or_go(self, *, away: bool) -> None:
        """All movers leave, or are back."""
        self.behaviour.movers_are_away = away
        self._there_since = self._around.clock()
        for uid in self.pods:
            for callback in tuple(self._callbacks):
                callback(uid)

    def kubelet_looks_again(self) -> None:
        """The kubelet is back: pods that it missed start, and those that were deleted meanwhile end."""
        for uid, keeper in tuple(self.pods.items()):
            if "deletionTimestamp" in keeper.pod["metadata"]:
                self.agenda.later(0.1, lambda uid=uid: self._ends(uid))  # type: ignore[misc]
            elif not keeper.pod["spec"].get("nodeName"):
                self.agenda.later(0.1, lambda uid=uid: self._starts(uid))  # type: ignore[misc]

    def forget_subscribers(self) -> None:
        """The operator's process is gone."""
        self._callbacks.clear()

    # --- Movers --------------------------------------------------------------------------------------------------

    def keepers(self) -> Mapping[str, Keeper]:
        """Every keeper that called home."""
        return {uid: self._as_told(keeper) for uid, keeper in self.pods.items() if keeper.connected}

    def _as_told(self, keeper: FakeKeeper) -> Keeper:
        away = self.behaviour.movers_are_away
        since = None if away else max(keeper.called_at, self._there_since)
        return Keeper(not away, keeper.report, keeper.reported_at, since)

    def subscribe(self, callback: Callable[[str], None]) -> None:
        """Call back on every change."""
        self._callbacks.append(callback)

    async def history(self, store: str, slot: str) -> SlotHistory | StoreTrouble | Unknown:
        """What the store holds of a slot."""
        trouble = self._trouble()
        return trouble if trouble is not None else self.store.history((store, slot))

    async def fence(self, fence: Fence) -> StoreTrouble | None:
        """Write a fence, as the mover does."""
        number = self._before(f"fence {fence.epoch}")
        trouble = self._trouble()
        if isinstance(trouble, Unknown):
            raise UnavailableError(trouble.why)
        if trouble is not None:
            return trouble
        refusal = self.store.fence(fence)
        self._cluster.faults.after(number)
        return refusal

    async def order(self, pod_uid: str, order: Mapping[str, Any]) -> None:
        """Give an order to a keeper."""
        number = self._before(f"order {order['verb']}")
        keeper = self.pods.get(pod_uid)
        if keeper is None or not keeper.connected or self.behaviour.movers_are_away:
            raise UnavailableError(f"no mover holds the keeper of pod {pod_uid}")
        keeper.obey(order)
        self._cluster.faults.after(number)

    def _before(self, what: str) -> int:
        """Count the call; whatever fault a test wants here, a mover knows only one."""
        try:
            return self._cluster.faults.before(what)
        except (ConflictError, ForbiddenError) as error:
            raise UnavailableError(str(error)) from error

    def _trouble(self) -> StoreTrouble | Unknown | None:
        if self.behaviour.movers_are_away:
            return Unknown("no mover answered what the store holds")
        if self.behaviour.store_is_down:
            return StoreTrouble("snapshot_store_unavailable", "the store does not answer", retryable=True)
        return None

    def _told(self, keeper: FakeKeeper) -> None:
        """A keeper reported something: the movers tell it on, and the kubelet asks init whether it is ready."""
        if not keeper.connected:
            return
        is_ready = keeper.report.agent_state == "Running" and keeper.report.opened == keeper.report.challenge
        if _is_ready(keeper.pod) is not is_ready:
            self._cluster.objects.change(reference_to(keeper.pod), lambda pod: _make_ready(pod, is_ready=is_ready))
        if not self.behaviour.movers_are_away:
            for callback in tuple(self._callbacks):
                callback(keeper.uid)

    # --- the kubelet ---------------------------------------------------------------------------------------------

    def _seen(self, event: str, document: Document) -> None:
        if document["kind"] == "Node" and event == "MODIFIED":
            self.kubelet_looks_again()
        if document["kind"] != "Pod":
            return
        uid = document["metadata"]["uid"]
        if event == "ADDED":
            self._made(uid, document)
        elif uid in self.pods and event == "MODIFIED":
            self.pods[uid].pod = document
            if "deletionTimestamp" in document["metadata"]:
                self._goes(uid, document["metadata"]["deletionGracePeriodSeconds"])
        elif uid in self.pods:
            self._gone(uid)

    def _goes(self, uid: str, grace: float) -> None:
        """Containers end at once, but for a keeper that still archives: it has the whole grace."""
        keeper = self.pods[uid]
        if uid not in self._going and self.behaviour.kubelet_works:
            self._going.add(uid)
            keeper.go()
            self.agenda.later(min(grace, 1), lambda: self._ends_in_time(uid, grace - 1))

    def _ends_in_time(self, uid: str, grace: float) -> None:
        keeper = self.pods.get(uid)
        if keeper is not None and keeper.is_saving and grace > 0:
            self.agenda.later(min(grace, 1), lambda: self._ends_in_time(uid, grace - 1))
        else:
            self._ends(uid)

    def _made(self, uid: str, pod: Document) -> None:
        session_uid = pod["metadata"].get("labels", {}).get(names.LABEL_SESSION_UID)
        if session_uid is None:
            return
        if any(each.session_uid == session_uid for each in self.pods.values()):
            self.violations.append(f"pod {pod['metadata']['name']} was created beside another one of its session")
        self.pods[uid] = FakeKeeper(pod, session_uid, self._around, self._told)
        self.agenda.later(0.3, lambda: self._starts(uid))

    def _starts(self, uid: str) -> None:
        keeper = self.pods.get(uid)
        if keeper is None or not self.behaviour.kubelet_works or keeper.pod["spec"].get("nodeName"):
            return
        reference = reference_to(keeper.pod)
        nodes = [each for each in self._cluster.objects.all("Node") if not each["spec"].get("unschedulable")]
        if not nodes:
            self._cluster.objects.change(reference, _make_unschedulable)
            return
        name = nodes[0]["metadata"]["name"]
        self._cluster.objects.change(reference, lambda pod: pod["spec"].update(nodeName=name))
        self._cluster.objects.change(reference, _make_running)
        self.agenda.later(0.1, keeper.call_home)

    def _ends(self, uid: str) -> None:
        keeper = self.pods.get(uid)
        if keeper is not None and self.behaviour.kubelet_works:
            self._cluster.objects.delete(reference_to(keeper.pod), uid, grace=0)

    def _gone(self, uid: str) -> None:
        keeper = self.pods.pop(uid)
        keeper.leave()
        if keeper.was_opened and not self.store.has_final_archive(keeper.slot, keeper.epoch):
            self.violations.append(f"pod {keeper.pod['metadata']['name']} went without a final archive of its epoch")
        for callback in tuple(self._callbacks):
            callback(uid)


def _make_unschedulable(pod: Document) -> None:
    pod["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }


def _make_running(pod: Document) -> None:
    now = pod["metadata"]["creationTimestamp"]
    conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": "False", "Ready": "False"}
    running = {"started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
    pod["status"] = {
        "phase": "Running",
        "podIP": "10.244.0.9",
        "hostIP": "172.31.0.10",
        "startTime": now,
        "qosClass": "Burstable",
        "conditions": [
            {"type": name, "status": status, "lastTransitionTime": now} for name, status in conditions.items()
        ],
        "initContainerStatuses": [{"name": names.KEEPER_CONTAINER, "ready": True, **running}],
        "containerStatuses": [{"name": names.AGENT_CONTAINER, "ready": False, **running}],
    }


def _is_ready(pod: Document) -> bool:
    return all(status["ready"] for status in pod["status"]["containerStatuses"])


def _make_ready(pod: Document, *, is_ready: bool) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "True" if is_ready else "False"
    for status in pod["status"]["containerStatuses"]:
        status["ready"] = is_ready
