"""What a raw pod says of itself, as far as decisions need it: epoch, whether it is going or dead, what holds it up.

Reads dictionaries that the API server sent; builds and decides nothing. Messages are our own words: a kubelet's change
with every attempt, and an unchanged state shall be written once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandhold import names
from sandhold.api.meta import moment
from sandhold.api.session import SandboxSession
from sandhold.desired import ownership
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject

TRIED_AGAIN = "; it is tried again by itself"
"""How a sentence ends about what goes on without anybody, as long as the wait lasts."""

_DEAD_PHASES = frozenset({"Succeeded", "Failed"})
_PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
_PULL_REASONS_MORE = frozenset({"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"})
_CREATE_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_CRASH_REASONS = frozenset({"CrashLoopBackOff", "PostStartHookError", "StartError"})


@dataclass(frozen=True, slots=True)
class SeenPod:
    """One pod of ours, read."""

    document: KubeObject
    name: str
    namespace: str
    uid: str
    epoch: int
    created: datetime | None
    deletion: datetime | None
    """When its grace ends or ended, once somebody deleted it; None while nobody did."""
    grace_seconds: int
    is_dead: bool
    """Every container has ended for good, and the kubelet has taken its volumes away."""
    address: str | None
    node: str | None

    @property
    def reference(self) -> Reference:
        """Which object it is."""
        return Reference("v1", "Pod", self.namespace, self.name)

    def deleted_for(self, now: datetime) -> float:
        """Seconds since somebody deleted it."""
        if self.deletion is None:
            return 0.0
        return (now - self.deletion + timedelta(seconds=self.grace_seconds)).total_seconds()

    def overdue_for(self, now: datetime) -> float:
        """Seconds since its grace ended; negative before."""
        return 0.0 if self.deletion is None else (now - self.deletion).total_seconds()


@dataclass(frozen=True, slots=True)
class Trouble:
    """What holds something up: a reason for programs and a stable sentence for people."""

    reason: str
    message: str


def see_pod(pod: KubeObject, session: SandboxSession) -> SeenPod | None:
    """A pod of the session, read; None for one whose name and epoch do not fit together."""
    epoch = ownership.pod_epoch(pod, session)
    if epoch is None:
        return None
    metadata, status, spec = ownership.metadata_of(pod), pod.get("status") or {}, pod.get("spec") or {}
    return SeenPod(
        document=pod,
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        uid=ownership.uid_of(pod),
        epoch=epoch,
        created=moment(metadata.get("creationTimestamp")),
        deletion=moment(metadata.get("deletionTimestamp")),
        grace_seconds=_whole(metadata.get("deletionGracePeriodSeconds")),
        is_dead=is_dead(pod),
        address=status.get("podIP") or None,
        node=spec.get("nodeName") or None,
    )


def is_dead(pod: KubeObject) -> bool:
    """Whether every container of a pod has ended for good, and the kubelet has taken its volumes away."""
    return (pod.get("status") or {}).get("phase") in _DEAD_PHASES


def keeper_since(pod: KubeObject) -> datetime | None:
    """Since when the keeper's container runs; None while it does not."""
    for status in _container_statuses(pod):
        if status.get("name") == names.KEEPER_CONTAINER:
            running = (status.get("state") or {}).get("running") or {}
            return moment(running.get("startedAt"))
    return None


def pod_trouble(pod: KubeObject) -> Trouble | None:
    """What keeps the pod's containers from running, if the scheduler or the kubelet says so."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Trouble(
                "Unschedulable",
                "No node can take the pod: check resources, spec.pod of the AgentSandbox, and the RuntimeClass's "
                "scheduling; the pod's Events name what is missing.",
            )
    for status in _container_statuses(pod):
        trouble = _container_trouble(status, _images(pod))
        if trouble is not None:
            return trouble
    return None


def _container_trouble(status: Mapping[str, Any], images: Mapping[str, str]) -> Trouble | None:
    name = str(status.get("name", ""))
    reason = ((status.get("state") or {}).get("waiting") or {}).get("reason")
    if reason in _PULL_REASONS or reason in _PULL_REASONS_MORE:
        image = images.get(name, "unknown")
        return Trouble(
            "ImagePullFailed",
            f"The image {image} of container {name} cannot be pulled: check its name and tag, and imagePullSecrets"
            f"{TRIED_AGAIN}.",
        )
    if reason in _CREATE_REASONS:
        return Trouble(
            "ContainerNotCreated",
            f"Container {name} cannot be created: the pod's Events say why{TRIED_AGAIN}.",
        )
    if reason in _CRASH_REASONS:
        return Trouble(
            "ContainerCrashing", f"Container {name} ends right after its start: its log (--previous) says why."
        )
    return None


def _images(pod: KubeObject) -> dict[str, str]:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return {str(item.get("name", "")): str(item.get("image", "")) for item in containers}


def _container_statuses(pod: KubeObject) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
