"""SandboxSession: one use of an AgentSandbox, by one user or conversation. Written by the agent service.

A session's spec is fixed, but for whether it shall run and for its time limit: a new use is a new session.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sandhold.api.meta import Conditions, ObjectMeta, Time
from sandhold.api.model import ApiModel, Column, KindFacts, Rule
from sandhold.api.pod import Environment
from sandhold.api.sandbox import Seconds
from sandhold.api.texts import name_rule

OperatingMode = Literal["Running", "Suspended"]
SessionPhase = Literal["Starting", "Ready", "Stopping", "Suspended", "Finished", "Failed"]
REST: frozenset[SessionPhase] = frozenset({"Suspended", "Finished", "Failed"})
"""The phases of a session that has no pod and wants none."""
Recovery = Literal["Initialized", "Restored", "Repaired", "Reused"]
StopReason = Literal[
    "Requested", "Deleted", "TtlExpired", "AgentExited", "Refused", "StartTimeout", "WorkspaceFull", "NodeCordoned"
]


class SandboxReference(ApiModel):
    """An AgentSandbox of the same namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253), name_rule("spec.sandboxRef.name")] = Field(
        description="Name of the AgentSandbox."
    )


class SandboxSessionSpec(ApiModel):
    """Which sandbox is used, and whether it shall run."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.sandboxRef == oldSelf.sandboxRef",
            message="spec.sandboxRef cannot be changed: make a new SandboxSession",
            field=".sandboxRef",
        ),
        Rule(
            cel="has(self.env) == has(oldSelf.env) && (!has(self.env) || self.env == oldSelf.env)",
            message="spec.env cannot be changed: make a new SandboxSession",
            field=".env",
        ),
    )

    sandbox_ref: SandboxReference = Field(description="The AgentSandbox to use, in the same namespace. Fixed.")
    operating_mode: OperatingMode = Field(
        default="Running",
        description="Running starts or resumes the session. Suspended archives its workspace and ends its pod.",
    )
    env: Environment = Field(
        default=(),
        description="Environment of this session, on top of the sandbox's; the same name here wins. Fixed.",
    )
    ttl_seconds: Seconds | None = Field(
        default=None,
        description="The session is suspended so long after it first became Ready. The sandbox's limit by default.",
    )


class Slot(ApiModel):
    """The place in the store that holds this session's workspace."""

    key: Annotated[str, Field(max_length=64)] = Field(description="Hash that names the place in the store.")
    epoch: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How many pods were made for it; a pod of an older epoch is fenced off."
    )


class SnapshotState(ApiModel):
    """The last verified archive of the workspace."""

    epoch: Annotated[int, Field(ge=0)] = Field(description="Epoch of the pod that it came from.")
    sequence: Annotated[int, Field(ge=0)] = Field(description="Number of the archive within its epoch.")
    key: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Key of its manifest in the store."
    )
    digest: Annotated[str, Field(max_length=128)] | None = Field(default=None, description="SHA-256 of its manifest.")
    name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="Name of its SandboxSnapshot, if one could be made."
    )


class RefusalState(ApiModel):
    """Why the session was refused or is held up."""

    code: Annotated[str, Field(max_length=64)] = Field(description="One of the documented codes, for programs.")
    message: Annotated[str, Field(max_length=2048)] = Field(description="What happened, to which object and field.")
    action: Annotated[str, Field(max_length=1024)] = Field(default="", description="What a person can do about it.")


class SandboxSessionStatus(ApiModel):
    """What became of the session."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The metadata.generation that this status was decided for."
    )
    phase: SessionPhase | None = Field(
        default=None,
        description=(
            "Starting, Ready, Stopping, Suspended (archived, may be resumed), Finished (the agent ended by itself "
            "with exit code 0) or Failed."
        ),
    )
    conditions: Conditions = Field(
        default=(),
        description=(
            "Ready, Admitted, PodReady, RuntimeVerified, EgressVerified, WorkspaceReady, Snapshotted, Reconciling "
            "and Stalled, each with its reason."
        ),
    )
    pod_name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="Name of the session's pod."
    )
    pod_uid: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="UID of that pod.")
    pod_ip: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, alias="podIP", description="Address of that pod."
    )
    node_name: Annotated[str, Field(max_length=253)] | None = Field(default=None, description="Node that it runs on.")
    tier: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Isolation tier that the session got."
    )
    runtime_class_name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="RuntimeClass that the pod is pinned to."
    )
    recovery: Recovery | None = Field(
        default=None,
        description="Where the last start got its workspace: Initialized, Restored, Repaired or Reused.",
    )
    slot: Slot | None = Field(default=None, description="The place in the store that holds this session's workspace.")
    snapshot: SnapshotState | None = Field(
        default=None,
        description="The last verified archive of the workspace, checkpoints included: where a lost pod goes on from.",
    )
    archives_on_stop: bool | None = Field(
        default=None,
        description="Whether this run was started with snapshot.onStop: then its stop archives, whatever is said now.",
    )
    refusal: RefusalState | None = Field(default=None, description="Why the session was refused or is held up.")
    stop_reason: StopReason | None = Field(default=None, description="Why the session was stopped the last time.")
    restarts: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="How many pods were lost while the session was to run, and replaced."
    )
    started_at: Time | None = Field(default=None, description="When the session first became Ready since its start.")
    expires_at: Time | None = Field(default=None, description="When its time limit suspends it.")
    observed_retry: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Last value of the annotation sandhold.dev/retry that was acted upon."
    )


class SandboxSession(ApiModel):
    """One use of an AgentSandbox: a pod behind walls with a workspace that is archived when it stops."""

    facts: ClassVar[KindFacts] = KindFacts(
        plural="sandboxsessions",
        short_name="sbs",
        columns=(
            Column("Sandbox", ".spec.sandboxRef.name"),
            Column("Phase", ".status.phase"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            Column("Recovery", ".status.recovery"),
            Column("Pod", ".status.podName", priority=1),
            Column("Runtime", ".status.runtimeClassName", priority=1),
            Column("Node", ".status.nodeName", priority=1),
            Column("Snapshot", ".status.snapshot.name", priority=1),
            Column("Expires", ".status.expiresAt", priority=1),  # no date column: those show how long ago something was
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable=(".spec.sandboxRef.name", ".spec.operatingMode"),
    )

    api_version: Literal["sandhold.dev/v1alpha1"] = "sandhold.dev/v1alpha1"
    kind: Literal["SandboxSession"] = "SandboxSession"
    metadata: ObjectMeta
    spec: SandboxSessionSpec = Field(description="Which sandbox is used, and whether it shall run.")
    status: SandboxSessionStatus = Field(
        default_factory=SandboxSessionStatus, description="What became of the session."
    )
