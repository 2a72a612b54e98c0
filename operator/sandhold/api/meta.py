"""What every object has: metadata, owner references, conditions, and the two outer shapes of our kinds.

Only what Sandhold reads is here. Foreign objects (pods, policies) never come in these shapes: they stay dictionaries.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, PlainSerializer

from sandhold.api.model import ApiModel, ListMap


def _whole_second(moment: datetime) -> datetime:
    # Nearly every moment has been here before.
    if moment.tzinfo is UTC and moment.microsecond == 0:
        return moment
    return moment.astimezone(UTC).replace(microsecond=0)


def time_text(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return f"{_whole_second(moment).replace(tzinfo=None).isoformat()}Z"


def moment(text: Any) -> datetime | None:
    """A timestamp of the API server's; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


Time = Annotated[AwareDatetime, AfterValidator(_whole_second), PlainSerializer(time_text, return_type=str)]
"""A moment with a zone, cut to whole seconds, so that writing and reading it back gives the same value."""

ConditionStatus = Literal["True", "False", "Unknown"]


class OwnerReference(ApiModel):
    """An entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiModel):
    """The part of `metadata` that Sandhold reads. The API server owns its schema."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None


class Condition(ApiModel):
    """One aspect of the object's state, true, false or unknown, and why."""

    type: str = Field(max_length=316, description="Which aspect of the object this is about, in CamelCase.")
    status: ConditionStatus = Field(description="Whether it holds: True, False or Unknown.")
    observed_generation: int | None = Field(
        default=None, ge=0, description="The metadata.generation of the object that this was decided for."
    )
    last_transition_time: Time = Field(description="When the status last changed.")
    reason: str = Field(max_length=1024, description="Why, as one CamelCase word for programs.")
    message: str = Field(max_length=32768, description="Why, as a sentence for people, with what to do about it.")


Conditions = Annotated[tuple[Condition, ...], Field(max_length=32), ListMap(("type",))]
