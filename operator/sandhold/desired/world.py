"""What one pass knows: everything observed about one key, gathered once, frozen before the first decision.

A read has three outcomes, and they are three types: the thing is there (`Present`), a read confirmed that it is not
(`ABSENT`), or nobody knows (`Unknown`, with the reason). Unknown is never treated as absent.

Kubernetes objects other than our own kinds stay the dictionaries that the API server sent; decisions read them through
small functions of the modules that build the same objects. Nothing here reads, decides or remembers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from sandhold.api.sandbox import AgentSandbox
from sandhold.api.session import SandboxSession
from sandhold.backends.model import Backends
from sandhold.reasons import Refusal

T = TypeVar("T")
KubeObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Present(Generic[T]):
    """A read found it."""

    value: T


@dataclass(frozen=True, slots=True)
class Absent:
    """A read confirmed that it is not there."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No read succeeded, so nothing may be concluded. `why` is stable: it holds no times, counters or request ids."""

    why: str


ABSENT = Absent()
Observed = Present[T] | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node, as far as it matters for whether a pod may stay on it or come to it."""

    is_cordoned: bool
    is_ready: bool
    """Whether its kubelet was heard of lately."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """What is the same for every object of this installation while its configuration holds."""

    id: str
    operator_namespace: str
    backends: Backends
    keeper_image: str
    keeper_image_pull_policy: str
    mover_address: Observed[str]
    """`host:port` that a keeper dials: the mover Service's ClusterIP and keeper port."""
    mover_canary: Observed[tuple[str, int]]
    """Address and port of the canary that only a sandbox's wall can block."""
    mover_ca: Observed[str]
    """PEM of the CA that signed the mover's certificate."""
    api_server: Observed[tuple[tuple[str, int], ...]]
    """Service address and endpoints of the API server: what no sandbox may reach."""
    runtime_classes: Observed[Mapping[str, str]]
    """Name of each RuntimeClass to its handler."""
    node_addresses: Observed[tuple[str, ...]] = ABSENT
    """Addresses of the nodes: the public ones are walled off one by one. `ABSENT` when nobody looks for them."""
    nodes: Observed[Mapping[str, Node]] = ABSENT
    """The nodes by name. `ABSENT` when nobody looks for them."""


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """What became of one dial of the keeper: `Connected`, `Refused`, `TimedOut` or `Failed`."""

    name: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One round of what a keeper saw, valid for one start of init."""

    challenge: str
    runtime_version: str
    probes: tuple[ProbeOutcome, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Until when (Unix seconds) a keeper holds a standing grant of each kind; 0 where it holds none."""

    checkpoint: int = 0
    final: int = 0


@dataclass(frozen=True, slots=True)
class Guard:
    """What guards the workspace's size, as the keeper was told, and how full it is."""

    level: str = "Normal"
    """`Normal`, `High`, `Full` or `Critical`."""
    size_bytes: int = 0
    limit_bytes: int = 0
    interval_seconds: int = 0


@dataclass(frozen=True, slots=True)
class KeeperReport:
    """A keeper's last report, parsed and bounded (operator/keeper/PROTOCOL.md 4.1)."""

    marker_slot: str | None = None
    marker_epoch: int | None = None
    marker_recovery: str | None = None
    marker_source: tuple[int, int] | None = None
    """The archive that the workspace came from; None for one that began without."""
    workspace_state: str = "Empty"
    workspace_code: str = ""
    workspace_message: str = ""
    waiting_for: int | None = None
    """Place in the list of the entry whose source is not there yet; only while the workspace is prepared."""
    evidence: Evidence | None = None
    challenge: str = ""
    opened: str = ""
    agent_state: str = "Unknown"
    agent_exit_code: int | None = None
    agent_message: str = ""
    archive_sequence: int | None = None
    archive_is_final: bool = False
    """Whether it is the archive of a stop; otherwise a checkpoint of the running workspace."""
    archive_state: str = ""
    archive_code: str = ""
    archive_message: str = ""
    kept: Kept | None = None
    """None until the keeper was told of a standing grant."""
    guard: Guard | None = None
    """None until the keeper was told what to guard."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """A keeper that some mover reported: connected now, or known from before and silent."""

    connected: bool
    report: KeeperReport | None
    reported_at: datetime | None = None
    """When this process received the report. Retries are spaced by it; without it they follow every report at once."""
    connected_since: datetime | None = None
    """Since when this process has seen it connected without a break. An agent that never says that it ended is archived
    its grace after this at the earliest, since an order to end may have reached nobody before; without it, not at all.
    """


@dataclass(frozen=True, slots=True)
class Manifest:
    """One verified manifest as a mover described it."""

    epoch: int
    sequence: int
    kind: str
    final: bool
    key: str
    digest: str
    bytes: int
    stored_bytes: int
    files: int
    created_at: str
    parent: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SlotHistory:
    """What the store says of a slot: the highest manifest, and the content that a start gets."""

    head: Manifest | None
    content: Manifest | None


@dataclass(frozen=True, slots=True)
class StoreTrouble:
    """The store (or a mover, asked about it) answered with a refusal: `code` is one of reasons.py."""

    code: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A SandboxSnapshot that the API server does not write, and what it says to that."""

    name: str
    why: str
    """Object and answer in words, without a time or a number of the request."""
    since: datetime
    """When it was refused first, and was not written since."""
    at: datetime
    """When it was tried last."""
    is_an_answer: bool
    """Whether somebody said no (a quota, a policy, missing rights). Else nobody answered, or could not."""


@dataclass(frozen=True, slots=True)
class SessionWorld:
    """All that a pass over one SandboxSession knows."""

    now: datetime
    installation: Installation
    session: SandboxSession
    sandbox: Observed[AgentSandbox]
    policy: Observed[KubeObject]
    """The AgentSandbox's NetworkPolicy, as the API server holds it."""
    service_account: Observed[KubeObject]
    pods: Observed[tuple[KubeObject, ...]]
    """Every pod that carries this session's UID and our installation id, terminating ones included."""
    squatter: Observed[KubeObject]
    """An object under the name of this epoch's pod that is not ours."""
    keepers: Mapping[str, Keeper]
    """By pod UID. A pod that is missing here has no keeper that called home."""
    history: Observed[SlotHistory] | StoreTrouble
    """`ABSENT` only when no archives are kept and none is known; an empty slot is a `SlotHistory` of two Nones."""
    snapshots: Observed[tuple[KubeObject, ...]]
    """SandboxSnapshots of this slot."""
    namespace_terminating: bool = False
    fenced_epoch: int | None = None
    """Epoch whose fence a mover confirmed to this operator process (forgotten at restart; asking again is harmless)."""
    posted_epoch: int | None = None
    """Epoch whose pod this operator process has made and not deleted: when it is not there, somebody else did."""
    create_refused: Refusal | None = None
    """Why the API server refused this session's last pod (quota, admission, an impossible spec); None after a success.
    The pass that plans the create again ends at the refusal, so a pass that wants to say so plans no create."""
    record_refused: RefusedRecord | None = None
    """The SandboxSnapshot that could not be written for this session last; None after a success. The pass that tries it
    again ends at the next refusal, so a pass that has anything else to do does not try it."""
    invalid: Refusal | None = None
    """Set when the stored object itself could not be read as its kind."""


@dataclass(frozen=True, slots=True)
class SandboxWorld:
    """All that a pass over one AgentSandbox knows."""

    now: datetime
    installation: Installation
    sandbox: AgentSandbox
    policy: Observed[KubeObject]
    service_account: Observed[KubeObject]
    disruption_budget: Observed[KubeObject]
    sessions: Observed[tuple[KubeObject, ...]]
    """SandboxSessions that name this AgentSandbox."""
    pods: Observed[tuple[KubeObject, ...]]
    """Pods that carry our labels for this AgentSandbox."""
    namespace_terminating: bool = False
    squatters: tuple[KubeObject, ...] = field(default=())
    """Objects under our names for it that are not ours."""
