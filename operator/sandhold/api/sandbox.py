"""AgentSandbox: what a sandbox is. Written by the platform team, used by any number of SandboxSessions.

Fields that do not work yet are not here at all: the API server refuses to store what nobody would honour.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sandhold.api.meta import Conditions, ObjectMeta
from sandhold.api.model import ApiModel, Column, KindFacts, ListMap, Rule
from sandhold.api.pod import Environment, ImagePullSecret, PodPlacement, Ports, Resources, Words
from sandhold.api.quantity import Quantity, size_rule
from sandhold.api.texts import DNS_LABEL, absolute_path_rule, name_rule, pattern_rule
from sandhold.api.workspace import Workspace

AGENT_USER = 10001
COMMAND_CHARACTERS = 16384

Seconds = Annotated[int, Field(ge=1, le=31536000)]


def _identity_rule(field: str) -> Rule:
    return Rule(
        cel="self >= 1 && self <= 2147483647",
        message=f"{field} must be from 1 to 2147483647: nothing in a sandbox runs as root",
        holds=lambda number: 1 <= number <= 2147483647,
    )


_INTERVAL_RULE = Rule(
    cel="self == 0 || (self >= 10 && self <= 86400)",
    message="snapshot.intervalSeconds must be 0 (no checkpoints) or from 10 to 86400",
    holds=lambda seconds: seconds == 0 or 10 <= seconds <= 86400,
)


class SnapshotPolicy(ApiModel):
    """When and where the workspace is archived."""

    on_stop: bool = Field(
        default=True,
        description="Archive the workspace at every stop. With false its content ends with the pod.",
    )
    interval_seconds: Annotated[int, _INTERVAL_RULE] = Field(
        default=300,
        description=(
            "A running workspace that changed is archived every so many seconds, so that a lost node costs no more "
            "than that: 0 for never, else 10 to 86400. Without onStop there are none."
        ),
    )
    store: Annotated[str, Field(min_length=1, max_length=63), name_rule("snapshot.store")] | None = Field(
        default=None, description="Name of a store of the operator's configuration; its default_store if none is named."
    )
    max_bytes: Annotated[Quantity, size_rule("snapshot.maxBytes")] | None = Field(
        default=None,
        description="A quantity such as 5Gi. Files larger than this together are not archived; then the pod stays.",
    )
    max_files: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        default=None, description="More files than this are not archived; then the pod stays and the session says why."
    )


class Lifecycle(ApiModel):
    """Time limits of a session."""

    ttl_seconds: Seconds | None = Field(
        default=None,
        description=(
            "A session is suspended, never deleted, so long after it first became Ready. "
            "A session may set its own. The default is the operator's."
        ),
    )
    start_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = Field(
        default=300, description="A start that takes longer has failed."
    )
    stop_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = Field(
        default=600, description="A stop that takes longer is reported as Stalled and goes on; nothing is discarded."
    )


def _command_length(spec: "AgentSandboxSpec") -> int:
    return sum(len(word) for word in (*spec.command, *spec.args))


class AgentSandboxSpec(ApiModel):
    """What every session of this sandbox gets."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.args) || self.args.size() == 0 || (has(self.command) && self.command.size() > 0)",
            message="spec.args needs spec.command: the entrypoint of the image is never run",
            holds=lambda spec: not spec.args or bool(spec.command),
            field=".args",
        ),
        Rule(
            cel=(
                "(has(self.command) ? self.command.map(w, w.size()).sum() : 0) + "
                f"(has(self.args) ? self.args.map(w, w.size()).sum() : 0) <= {COMMAND_CHARACTERS}"
            ),
            message=f"spec.command and spec.args must not hold more than {COMMAND_CHARACTERS} characters in all",
            holds=lambda spec: _command_length(spec) <= COMMAND_CHARACTERS,
            field=".command",
        ),
    )

    image: (
        Annotated[
            str,
            Field(min_length=1, max_length=1024),
            pattern_rule(
                r"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$", "spec.image must be an image reference, such as python:3.13"
            ),
        ]
        | None
    ) = Field(default=None, description="Image of the agent container; the tier's default image if left out.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        default=None, description="When the image is pulled; as Kubernetes decides by the tag if left out."
    )
    image_pull_secrets: Annotated[tuple[ImagePullSecret, ...], Field(max_length=16), ListMap(("name",))] = Field(
        default=(), description="Secrets of this namespace with registry credentials."
    )
    command: Words = Field(
        default=(),
        description=(
            "Program and arguments of the agent, run without a shell. None: the container idles and people exec "
            "into it; the entrypoint of the image is not run."
        ),
    )
    args: Words = Field(default=(), description="Further arguments, after command.")
    env: Environment = Field(
        default=(),
        description="Environment of the agent. PATH, HOME, TMPDIR and XDG_* have defaults; nothing else is inherited.",
    )
    ports: Ports = Field(default=(), description="Ports that may be reached from outside; every other one is walled.")
    working_dir: Annotated[str, Field(min_length=2, max_length=1024), absolute_path_rule("spec.workingDir")] | None = (
        Field(default=None, description="Folder that the agent starts in; the mount path if left out.")
    )
    resources: Resources | None = Field(
        default=None, description="Requests and limits of the agent; the operator's defaults where left out."
    )
    tier: (
        Annotated[
            str,
            Field(min_length=1, max_length=63),
            pattern_rule(DNS_LABEL, "spec.tier must be the name of a tier: lower-case letters, digits and '-'"),
        ]
        | None
    ) = Field(default=None, description="Isolation tier of the operator's configuration; its default tier if left out.")
    run_as_user: Annotated[int, _identity_rule("spec.runAsUser")] = Field(
        default=AGENT_USER, description="User that the agent runs as. Never 0."
    )
    run_as_group: Annotated[int, _identity_rule("spec.runAsGroup")] = Field(
        default=AGENT_USER, description="Group that the agent runs as. Never 0."
    )
    pod: PodPlacement | None = Field(default=None, description="Where the pods may run.")
    workspace: Workspace = Field(
        default=Workspace(), description="The folder that survives stops: archived at each, restored after it."
    )
    snapshot: SnapshotPolicy = Field(default=SnapshotPolicy(), description="When and where the workspace is archived.")
    lifecycle: Lifecycle = Field(default=Lifecycle(), description="Time limits of a session.")


class AgentSandboxStatus(ApiModel):
    """What the operator found and did."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The metadata.generation that this status was decided for."
    )
    conditions: Conditions = Field(
        default=(), description="Ready, Accepted, WallsInPlace, Reconciling and Stalled, each with its reason."
    )
    tier: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Isolation tier that sessions get."
    )
    runtime_class_name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="RuntimeClass that pods are pinned to."
    )
    egress_mechanism: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="What enforces the walls."
    )
    sessions: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="How many SandboxSessions name this sandbox, as of half a minute ago at most."
    )


class AgentSandbox(ApiModel):
    """What a sandbox is: image, isolation tier, workspace, snapshots. SandboxSessions use it."""

    facts: ClassVar[KindFacts] = KindFacts(
        plural="agentsandboxes",
        short_name="asb",
        columns=(
            Column("Tier", ".status.tier"),
            Column("Runtime", ".status.runtimeClassName"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            Column("Sessions", ".status.sessions", "integer"),
            Column("Egress", ".status.egressMechanism", priority=1),
            Column("Image", ".spec.image", priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    api_version: Literal["sandhold.dev/v1alpha1"] = "sandhold.dev/v1alpha1"
    kind: Literal["AgentSandbox"] = "AgentSandbox"
    metadata: ObjectMeta
    spec: AgentSandboxSpec = Field(description="What every session of this sandbox gets.")
    status: AgentSandboxStatus = Field(
        default_factory=AgentSandboxStatus, description="What the operator found and did."
    )
