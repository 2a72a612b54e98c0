"""What `-o json` and `-o yaml` say: a stable form, documented field by field, that hides how the objects are built.

Fields are added, never changed or taken away. A field is always there; null says that there is nothing to say.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Shape(BaseModel):
    """Camel case outside, as Kubernetes has it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class ConditionShape(Shape):
    """One condition of an object's status."""

    type: str = Field(description="Which aspect it is about.")
    status: str = Field(description="`True`, `False` or `Unknown`.")
    reason: str = Field(description="Why, in one word; the page on reasons explains each.")
    message: str = Field(description="Why, in a sentence.")
    since: str | None = Field(description="When the status last changed.")


class PodShape(Shape):
    """The pod of a session."""

    name: str = Field(description="Its name.")
    ip: str | None = Field(description="Its address.")
    node: str | None = Field(description="The node that it runs on.")


class ArchiveShape(Shape):
    """An archive of a workspace."""

    epoch: int | None = Field(description="Epoch of the pod that it came from.")
    sequence: int | None = Field(description="Its number within the epoch.")
    name: str | None = Field(description="Name of its SandboxSnapshot.")
    key: str | None = Field(description="Key of its manifest in the store.")


class RefusalShape(Shape):
    """Why a session was refused or is held up."""

    code: str = Field(description="One of the documented codes.")
    message: str = Field(description="What happened, to which object and field.")
    meaning: str | None = Field(description="What the code means; null for one that this version does not know.")
    action: str = Field(description="What a person can do about it.")


class SessionShape(Shape):
    """A SandboxSession: `session ls`, `get`, `suspend`, `resume`."""

    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    uid: str = Field(description="Its UID.")
    sandbox: str = Field(description="The AgentSandbox that it uses.")
    operating_mode: str = Field(description="What is wished: `Running` or `Suspended`.")
    phase: str | None = Field(description="Where it is; null until the operator has seen it.")
    ready: bool = Field(description="Whether the agent runs behind walls that were seen to hold.")
    reason: str | None = Field(description="Reason of the condition `Ready`.")
    message: str | None = Field(description="Message of the condition `Ready`.")
    deleting: bool = Field(description="Whether somebody deleted it and its workspace is not safe yet.")
    tier: str | None = Field(description="Isolation tier.")
    runtime_class: str | None = Field(description="RuntimeClass that the pod is pinned to.")
    recovery: str | None = Field(description="Where the last start got its workspace.")
    restarts: int = Field(description="How many pods were lost and replaced since the start.")
    stop_reason: str | None = Field(description="Why it was stopped the last time.")
    refusal: RefusalShape | None = Field(description="Why it was refused or is held up.")
    pod: PodShape | None = Field(description="Its pod.")
    snapshot: ArchiveShape | None = Field(description="The last verified archive of its workspace.")
    created_at: str | None = Field(description="When it was created.")
    started_at: str | None = Field(description="When it first became Ready since its start.")
    expires_at: str | None = Field(description="When its time limit suspends it.")
    conditions: list[ConditionShape] = Field(description="All conditions.")


class SnapshotShape(Shape):
    """A SandboxSnapshot: `snapshot ls`."""

    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    session: str = Field(description="The SandboxSession that it came from.")
    phase: str | None = Field(description="`Ready` when it is stored and verified.")
    final: bool | None = Field(description="Whether it is of a stop; false for a checkpoint of a running session.")
    epoch: int | None = Field(description="Epoch of the pod that it came from.")
    sequence: int | None = Field(description="Its number within the epoch.")
    files: int | None = Field(description="How many files it holds.")
    bytes: int | None = Field(description="Size of its files together.")
    stored_bytes: int | None = Field(description="Size of what was stored for it.")
    store: str | None = Field(description="Store of the operator's configuration.")
    key: str | None = Field(description="Key of its manifest in the store.")
    digest: str | None = Field(description="SHA-256 of its manifest.")
    created_at: str | None = Field(description="When it was made.")
    verified_at: str | None = Field(description="When it was last verified.")


class RemovedShape(Shape):
    """`session rm`."""

    namespace: str = Field(description="Namespace of the session.")
    name: str = Field(description="Its name.")
    gone: bool = Field(description="Whether it is gone already; false: its deletion was asked for and goes on.")
    discarded: bool = Field(description="Whether its workspace was given up with `--discard`.")
    workspace: str = Field(description="What becomes of its workspace, in a sentence.")


class PlanShape(Shape):
    """`plan`: what the operator would do now."""

    kind: str = Field(description="Kind of the object.")
    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    settled: bool = Field(description="Whether nothing would be changed.")
    steps: list[str] = Field(description="Each step in words, in order.")
    wake_after_seconds: float | None = Field(description="When the operator looks again even if nothing happens.")
    resource_version: str = Field(description="The version of the object that this was decided for.")
    observed: dict[str, Any] = Field(description="What the operator knew, in short.")
    plan: dict[str, Any] = Field(description="The plan itself; whatever may be secret is `masked:` and a digest.")


class LimitShape(Shape):
    """Something that ends or changes a session by itself."""

    limit: str = Field(description="The field that sets it.")
    at: str | None = Field(description="When; null where it is not running at the moment.")
    then: str = Field(description="What happens.")


class ExplanationShape(Shape):
    """`explain`: where an object is, what it waits for, what a person can do."""

    kind: str = Field(description="Kind of the object.")
    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    phase: str | None = Field(description="Where it is.")
    wished: str = Field(description="What is wished of it.")
    summary: str = Field(description="All in a sentence.")
    waits_for: str | None = Field(description="What it waits for; null when it waits for nothing.")
    conditions: list[ConditionShape] = Field(description="The conditions that are not as wished.")
    refusal: RefusalShape | None = Field(description="Why it was refused or is held up.")
    next_steps: list[str] | None = Field(
        description="What the operator would do now, in words; null when it could not be asked."
    )
    wake_after_seconds: float | None = Field(description="When the operator looks again even if nothing happens.")
    source: str = Field(description="`operator`, or `status` when the operator could not be asked.")
    note: str | None = Field(description="Why the operator could not be asked.")
    recovery_point: ArchiveShape | None = Field(description="The archive that a lost pod would start again from.")
    pod: PodShape | None = Field(description="Its pod.")
    limits: list[LimitShape] = Field(description="What ends or changes it by itself.")


class SweepObjectShape(Shape):
    """One object that a sweep judged."""

    kind: str = Field(description="Its kind.")
    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    uid: str = Field(description="Its UID.")
    owner: str | None = Field(description="Whom it was made for, as it says itself.")
    outcome: str = Field(description="What a first sweep makes of it.")
    orphan: bool = Field(description="Whether nobody owns it.")
    message: str = Field(description="Why, in a sentence.")


class SweepShape(Shape):
    """`sweep`: what nobody owns any more. Nothing was deleted."""

    installation_id: str = Field(description="Whose objects were looked at.")
    dry_run: bool = Field(description="Always true: the command line deletes nothing.")
    stopped: str | None = Field(description="Why the operator would delete none of them, if its breaker says so.")
    unread: dict[str, str] = Field(description="Kinds that could not be listed, and why.")
    judged: int = Field(description="How many objects were looked at.")
    orphans: int = Field(description="How many of them nobody owns.")
    objects: list[SweepObjectShape] = Field(description="The orphans; with `--all` every object that was looked at.")
