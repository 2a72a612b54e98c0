"""The messages of the protocol as values: what a peer says is one of these, within bounds, or the connection ends.

Unknown fields are dropped, so that a newer peer can say more; everything known is bounded, since a keeper shares its
uid with an agent. How messages travel is `wire.py`'s business.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from sandhold.mover.grant import LONGEST_TEXT, Number, SlotName, Source
from sandhold.mover.wire import FrameError, Message

LARGEST_REPORT = 48 * 1024
"""Leaves room in a frame for what the mover puts around it."""
MOST_PROBES = 64
MOST_ENTRIES = 65_535

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Short = Annotated[str, Field(max_length=128)]
Text = Annotated[str, Field(max_length=4096)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class WireModel(BaseModel):
    """A message or a part of one: camelCase on the wire, unknown fields dropped, no conversions of types."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, strict=True, extra="ignore", use_enum_values=False
    )

    def as_message(self) -> Message:
        """As the wire spells it."""
        return self.model_dump(mode="json", by_alias=True)


class Purpose(StrEnum):
    """What a keeper's connection is for."""

    CONTROL = "control"
    ARCHIVE = "archive"
    RESTORE = "restore"


class Hello(WireModel):
    """The first frame of every connection to the keepers' port."""

    type: Literal["hello"]
    version: Literal[1]
    purpose: Annotated[Purpose, Field(strict=False)]
    token: Annotated[str, Field(max_length=7168, pattern=r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$")]
    grant: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


class Marker(WireModel):
    """What the keeper's private marker says."""

    slot: Short
    epoch: Number
    recovery: Short = ""
    source: Source | None = None


class WorkspaceReport(WireModel):
    """How far the workspace is."""

    state: Annotated[str, Field(pattern=r"^(Empty|Preparing|Ready|Failed)$")]
    code: Short = ""
    message: Text = ""
    files: Count = 0
    bytes: Count = 0
    waiting_for: Annotated[int, Field(ge=0, le=MOST_ENTRIES)] | None = None
    """Index of the entry whose source is not there yet: what it is called, the operator knows from the spec."""


class RuntimeEvidence(WireModel):
    """What the kernel says that it is."""

    version: Text = ""
    release: Short = ""


class ProbeResult(WireModel):
    """What one connection attempt met."""

    name: Short
    outcome: Annotated[str, Field(pattern=r"^(Connected|Refused|TimedOut|Failed)$")]
    milliseconds: Count = 0


class Evidence(WireModel):
    """One observation of runtime and walls."""

    challenge: Short
    round: Count
    runtime: RuntimeEvidence
    probes: Annotated[list[ProbeResult], Field(max_length=MOST_PROBES)]


class GateReport(WireModel):
    """The gate: init's challenge, and the one that a word was written for."""

    challenge: Short = ""
    opened: Short = ""


class AgentReport(WireModel):
    """What init says about the agent: a hint."""

    state: Annotated[str, Field(pattern=r"^(Unknown|Waiting|Running|Ended)$")]
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31)] = 0
    message: Text = ""


class ArchiveReport(WireModel):
    """How the last archive goes."""

    sequence: Number
    final: bool = False
    state: Annotated[str, Field(pattern=r"^(Running|Stored|Failed)$")]
    code: Short = ""
    message: Text = ""
    files: Count = 0
    bytes: Count = 0


class KeptReport(WireModel):
    """Until when (Unix seconds) the keeper holds a standing grant of each kind; 0 where it holds none."""

    checkpoint: Count = 0
    final: Count = 0


class GuardReport(WireModel):
    """What guards the workspace's size, as the keeper was told, and how full it was when the level last changed."""

    level: Annotated[str, Field(pattern=r"^(Normal|High|Full|Critical)$")]
    size_bytes: Count
    limit_bytes: Count
    interval_seconds: Count = 0
    used_bytes: Count = 0
    frozen: bool = False


class Report(WireModel):
    """The whole state of a keeper."""

    version: Short
    boot: Short
    marker: Marker | None = None
    workspace: WorkspaceReport
    evidence: Evidence | None = None
    gate: GateReport
    agent: AgentReport
    archive: ArchiveReport | None = None
    kept: KeptReport | None = None
    guard: GuardReport | None = None


class Done(WireModel):
    """The keeper's account of an archive that it has sent whole."""

    type: Literal["done"]
    layer_sha256: Annotated[Digest, Field(alias="layerSha256")]
    layer_bytes: Count
    raw_bytes: Count
    files: Count
    bytes: Count


class OrderRequest(WireModel):
    """Pass an order on to the keeper of a pod."""

    verb: Literal["order"]
    pod_uid: Short
    order: dict[str, JsonValue]


class HeadRequest(WireModel):
    """What is the newest in a slot."""

    verb: Literal["head"]
    store: Short
    slot: SlotName


class FenceRequest(WireModel):
    """Fence off everything below an epoch."""

    verb: Literal["fence"]
    store: Short
    slot: SlotName
    epoch: Annotated[int, Field(ge=1, le=9_999_999_999)]
    parent: Source | None
    pod_uid: Annotated[str, Field(min_length=1, max_length=128)]


M = TypeVar("M", bound=WireModel)


def parse(model: type[M], message: Any) -> M:
    """A message as the model says, or FrameError; what was wrong is named by field, never by value."""
    try:
        return model.model_validate(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the message"
        raise FrameError(f"{model.__name__}: {field}: {first['type']}") from error


def parse_report(message: Message) -> bytes:
    """The report in a keeper's message, checked and trimmed to what we know of, as JSON text."""
    report = parse(Report, message.get("report")).model_dump_json(by_alias=True).encode()
    if len(report) > LARGEST_REPORT:
        raise FrameError(f"a report is larger than {LARGEST_REPORT} bytes")
    return report
