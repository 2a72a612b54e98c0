"""PURE: what movers say, as the values of `desired/world.py`. Everything is checked, bounded and cleaned here.

A keeper shares its uid with an agent, so its report is hostile until checked. What decides about a workspace
(workspace, gate, archive) must be well formed or the whole report counts as not given: nothing may follow from half of
it. The agent's own part comes from a file that the agent can write; it can spoil that part alone.
"""

import re
from collections.abc import Mapping
from typing import Any

from sandhold.desired.world import Evidence, Guard, KeeperReport, Kept, Manifest, ProbeOutcome, SlotHistory

MOST_PROBES = 32
MOST_ENTRIES = 4096
LONGEST_MESSAGE = 512
LARGEST_NUMBER = 2**53
LARGEST_SIZE = 2**63 - 1
HIGHEST_POSITION = 9_999_999_999

_CHALLENGE = re.compile(r"[0-9a-f]{32}")
_CODE = re.compile(r"[a-z][a-z_]{0,63}")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SLOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_KEY = re.compile(r"[!-~]{1,1024}")
_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{64}")
_TIME = re.compile(r"[0-9TZ:.+-]{10,40}")
_POD_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BETWEEN_WORDS = re.compile(r"[^!-~]+")

_WORKSPACE_STATES = ("Empty", "Preparing", "Ready", "Failed")
_RECOVERIES = ("Initialized", "Restored", "Repaired", "Reused")
_OUTCOMES = ("Connected", "Refused", "TimedOut", "Failed")
_AGENT_STATES = ("Unknown", "Waiting", "Running", "Ended")
_ARCHIVE_STATES = ("Running", "Stored", "Failed")
_GUARD_LEVELS = ("Normal", "High", "Full", "Critical")
_MANIFEST_KINDS = ("Archive", "Fence")


class MalformedError(ValueError):
    """A mover or a keeper said something that the protocol does not know. Names the field, never its content."""


def pod_uid(value: object) -> str:
    """The UID of a pod, as the API server makes them."""
    return _matching(value, _POD_UID, "podUid")


def keeper_report(value: object) -> KeeperReport:
    """A report (PROTOCOL.md 4.1), or MalformedError."""
    report = _mapping(value, "report")
    marker = _optional_mapping(report.get("marker"), "marker")
    source = None if marker is None else _optional_mapping(marker.get("source"), "marker.source")
    workspace = _mapping(report.get("workspace"), "workspace")
    gate = _mapping(report.get("gate"), "gate")
    archive = _optional_mapping(report.get("archive"), "archive")
    agent_state, agent_exit_code, agent_message = _agent(report.get("agent"))
    return KeeperReport(
        marker_slot=None if marker is None else _matching(marker.get("slot"), _SLOT, "marker.slot"),
        marker_epoch=None if marker is None else _number(marker.get("epoch"), "marker.epoch", HIGHEST_POSITION),
        marker_recovery=None if marker is None else _one_of(marker.get("recovery"), _RECOVERIES, "marker.recovery"),
        marker_source=None if source is None else _position(source, "marker.source"),
        workspace_state=_one_of(workspace.get("state"), _WORKSPACE_STATES, "workspace.state"),
        workspace_code=_code(workspace.get("code"), "workspace.code"),
        workspace_message=text(workspace.get("message")),
        waiting_for=_waiting_for(workspace.get("waitingFor")),
        evidence=_evidence(report.get("evidence")),
        challenge=_challenge(gate.get("challenge"), "gate.challenge"),
        opened=_challenge(gate.get("opened"), "gate.opened"),
        agent_state=agent_state,
        agent_exit_code=agent_exit_code,
        agent_message=agent_message,
        archive_sequence=None if archive is None else _number(archive.get("sequence"), "archive.sequence"),
        archive_is_final=False if archive is None else _claim(archive.get("final", False), "archive.final"),
        archive_state="" if archive is None else _one_of(archive.get("state"), _ARCHIVE_STATES, "archive.state"),
        archive_code="" if archive is None else _code(archive.get("code"), "archive.code"),
        archive_message="" if archive is None else text(archive.get("message")),
        kept=_kept(report.get("kept")),
        guard=_guard(report.get("guard")),
    )


def slot_history(value: object) -> SlotHistory:
    """The answer to `head` (PROTOCOL.md 9), or MalformedError."""
    result = _mapping(value, "result")
    head, content = (None if result.get(key) is None else manifest(result.get(key), key) for key in ("head", "content"))
    if content is not None and content.kind != "Archive":
        raise MalformedError("content must be an archive")
    if head is None and content is not None:
        raise MalformedError("content without a head")
    return SlotHistory(head, content)


def manifest(value: object, where: str) -> Manifest:
    """One manifest as a mover describes it, or MalformedError."""
    said = _mapping(value, where)
    parent = _optional_mapping(said.get("parent"), f"{where}.parent")
    return Manifest(
        epoch=_number(said.get("epoch"), f"{where}.epoch", HIGHEST_POSITION),
        sequence=_number(said.get("sequence"), f"{where}.sequence", HIGHEST_POSITION),
        kind=_one_of(said.get("kind"), _MANIFEST_KINDS, f"{where}.kind"),
        final=_claim(said.get("final"), f"{where}.final"),
        key=_matching(said.get("key"), _KEY, f"{where}.key"),
        digest=_matching(said.get("digest"), _DIGEST, f"{where}.digest"),
        bytes=_number(said.get("bytes"), f"{where}.bytes"),
        stored_bytes=_number(said.get("storedBytes"), f"{where}.storedBytes"),
        files=_number(said.get("files"), f"{where}.files"),
        created_at=_matching(said.get("createdAt"), _TIME, f"{where}.createdAt"),
        parent=None if parent is None else _position(parent, f"{where}.parent"),
    )


def text(value: object, longest: int = LONGEST_MESSAGE) -> str:
    """A message for people on one line of printable ASCII, cut to a bound; anything but a string is no message."""
    if not isinstance(value, str):
        return ""
    return _BETWEEN_WORDS.sub(" ", value[: 2 * longest])[:longest].strip()


def code(value: object) -> str:
    """An error code, or an empty string where there is none that could be one."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""


def _agent(value: object) -> tuple[str, int | None, str]:
    """The agent's part: from a file that the agent writes, so nonsense means `Unknown` and nothing more."""
    if not isinstance(value, Mapping) or value.get("state") not in _AGENT_STATES:
        return "Unknown", None, ""
    exit_code = value.get("exitCode")
    if isinstance(exit_code, bool) or not isinstance(exit_code, int) or not 0 <= exit_code <= 255:
        exit_code = None
    return value["state"], exit_code if value["state"] == "Ended" else None, text(value.get("message"))


def _waiting_for(value: object) -> int | None:
    return None if value is None else _number(value, "workspace.waitingFor", MOST_ENTRIES - 1)


def _kept(value: object) -> Kept | None:
    kept = _optional_mapping(value, "kept")
    if kept is None:
        return None
    return Kept(_number(kept.get("checkpoint"), "kept.checkpoint"), _number(kept.get("final"), "kept.final"))


def _guard(value: object) -> Guard | None:
    """What was measured is left out: it changes with every level, and decides nothing."""
    guard = _optional_mapping(value, "guard")
    if guard is None:
        return None
    return Guard(
        level=_one_of(guard.get("level"), _GUARD_LEVELS, "guard.level"),
        size_bytes=_number(guard.get("sizeBytes"), "guard.sizeBytes", LARGEST_SIZE),
        limit_bytes=_number(guard.get("limitBytes"), "guard.limitBytes", LARGEST_SIZE),
        interval_seconds=_number(guard.get("intervalSeconds"), "guard.intervalSeconds"),
    )


def _evidence(value: object) -> Evidence | None:
    evidence = _optional_mapping(value, "evidence")
    if evidence is None:
        return None
    runtime = _mapping(evidence.get("runtime"), "evidence.runtime")
    version = runtime.get("version")
    if not isinstance(version, str):
        raise MalformedError("evidence.runtime.version must be a text")
    listed = evidence.get("probes")
    if not isinstance(listed, list) or len(listed) > MOST_PROBES:
        raise MalformedError(f"evidence.probes must be a list of at most {MOST_PROBES}")
    probes = tuple(_probe(each) for each in listed)
    if len({probe.name for probe in probes}) != len(probes):
        raise MalformedError("evidence.probes holds a name twice")
    challenge = _challenge(evidence.get("challenge"), "evidence.challenge")
    # Observed before init spoke for the first time: the keeper names a challenge as soon as there is one.
    return Evidence(challenge, text(version), probes) if challenge else None


def _probe(value: object) -> ProbeOutcome:
    probe = _mapping(value, "evidence.probes")
    return ProbeOutcome(
        _matching(probe.get("name"), _NAME, "evidence.probes.name"),
        _one_of(probe.get("outcome"), _OUTCOMES, "evidence.probes.outcome"),
    )


def _position(value: Mapping[str, Any], where: str) -> tuple[int, int]:
    return (
        _number(value.get("epoch"), f"{where}.epoch", HIGHEST_POSITION),
        _number(value.get("sequence"), f"{where}.sequence", HIGHEST_POSITION),
    )


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MalformedError(f"{where} must be an object")
    return value


def _optional_mapping(value: object, where: str) -> Mapping[str, Any] | None:
    return None if value is None else _mapping(value, where)


def _matching(value: object, pattern: re.Pattern[str], where: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise MalformedError(f"{where} is not of the form that the protocol gives it")
    return value


def _one_of(value: object, allowed: tuple[str, ...], where: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise MalformedError(f"{where} is none of {', '.join(allowed)}")
    return value


def _claim(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise MalformedError(f"{where} must be true or false")
    return value


def _challenge(value: object, where: str) -> str:
    return "" if value in ("", None) else _matching(value, _CHALLENGE, where)


def _code(value: object, where: str) -> str:
    return "" if value in ("", None) else _matching(value, _CODE, where)


def _number(value: object, where: str, highest: int = LARGEST_NUMBER) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise MalformedError(f"{where} must be a whole number from 0 to {highest}")
    return value
