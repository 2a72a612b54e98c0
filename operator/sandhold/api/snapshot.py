"""SandboxSnapshot: an entry of the index of the store, which is the truth. Written by the operator.

It is not owned by its session, so neither the session's end nor a lost etcd takes archives along. Deleting one deletes
nothing in the store.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sandhold.api.meta import Conditions, ObjectMeta, Time
from sandhold.api.model import ApiModel, Column, KindFacts, Rule
from sandhold.api.texts import name_rule

SnapshotPhase = Literal["Pending", "Ready", "Failed"]


class SessionReference(ApiModel):
    """The SandboxSession that the archive came from."""

    name: Annotated[str, Field(min_length=1, max_length=253), name_rule("spec.sessionRef.name")] = Field(
        description="Name of the SandboxSession, in the same namespace."
    )
    uid: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Its UID, which tells it from another session of the same name."
    )


class SandboxSnapshotSpec(ApiModel):
    """Whose workspace this is an archive of."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.sessionRef == oldSelf.sessionRef",
            message="spec.sessionRef cannot be changed: an archive stays with the session that it came from",
            field=".sessionRef",
        ),
    )

    session_ref: SessionReference = Field(description="The SandboxSession that the archive came from. Fixed.")


class SandboxSnapshotStatus(ApiModel):
    """What the store holds."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The metadata.generation that this status was decided for."
    )
    phase: SnapshotPhase | None = Field(default=None, description="Pending, Ready (stored and verified) or Failed.")
    conditions: Conditions = Field(default=(), description="Ready, with its reason.")
    store: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Store of the operator's configuration that holds it."
    )
    key: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Key of its manifest in the store."
    )
    digest: Annotated[str, Field(max_length=128)] | None = Field(default=None, description="SHA-256 of its manifest.")
    bytes: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Size of its files together.")
    stored_bytes: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Size of what was stored for it, compressed."
    )
    files: Annotated[int, Field(ge=0)] | None = Field(default=None, description="How many files it holds.")
    epoch: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Epoch of the pod that it came from.")
    sequence: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Number of the epoch's newest archive within it; it rises with each one."
    )
    final: bool | None = Field(
        default=None,
        description="Whether it was made after the agent had ended; else it is a checkpoint of a running workspace.",
    )
    created_at: Time | None = Field(default=None, description="When it was made.")
    verified_at: Time | None = Field(default=None, description="When what the store holds was last verified.")


class SandboxSnapshot(ApiModel):
    """The newest archive of one pod's workspace in object storage: an index entry, not the archive itself."""

    facts: ClassVar[KindFacts] = KindFacts(
        plural="sandboxsnapshots",
        short_name="sbsnap",
        columns=(
            Column("Session", ".spec.sessionRef.name"),
            Column("Phase", ".status.phase"),
            Column("Epoch", ".status.epoch", "integer"),
            Column("Sequence", ".status.sequence", "integer"),
            Column("Final", ".status.final", "boolean"),
            Column("Files", ".status.files", "integer"),
            Column("Bytes", ".status.bytes", "integer"),
            Column("Stored", ".status.storedBytes", "integer", priority=1),
            Column("Store", ".status.store", priority=1),
            Column("Created", ".status.createdAt", "date"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable=(".spec.sessionRef.name",),
    )

    api_version: Literal["sandhold.dev/v1alpha1"] = "sandhold.dev/v1alpha1"
    kind: Literal["SandboxSnapshot"] = "SandboxSnapshot"
    metadata: ObjectMeta
    spec: SandboxSnapshotSpec = Field(description="Whose workspace this is an archive of.")
    status: SandboxSnapshotStatus = Field(default_factory=SandboxSnapshotStatus, description="What the store holds.")
