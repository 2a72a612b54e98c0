"""API writes as the API server itself counted them: the audit log of the test cluster, not our own metrics.

Counted is every request of Sandhold's own service accounts that changes something, but for Events, TokenReviews and the
election's Lease, which are there whether or not anything happens. Failed ones count too: they cost the same.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from installation.deploying import NAMESPACE as SYSTEM
from testbed import places

_WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_LEFT_OUT = frozenset({"events", "tokenreviews"})
_ACCOUNTS = f"system:serviceaccount:{SYSTEM}:"


@dataclass(frozen=True, order=True)
class Written:
    """One writing request."""

    at: str
    account: str
    verb: str
    what: str
    code: int

    def as_text(self) -> str:
        """On one line, for people who want to see every request."""
        return f"{self.at} {self.account} {self.verb} {self.what} {self.code}"


def now() -> str:
    """This moment as the audit log spells it: both clocks are this machine's."""
    return _spelled(datetime.now(UTC))


def _spelled(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def writes(begin: str, end: str) -> list[Written]:
    """Every counted request that the API server received between two moments, in order."""
    return sorted(found for line in _lines(begin) if (found := _counted(line)) is not None and begin <= found.at < end)


def _lines(begin: str) -> Iterator[str]:
    """The log and what was rotated away since; older files hold nothing of the time asked for."""
    for path in sorted((places.state() / "logs").glob("audit*.jsonl")):
        if _last_change(path) >= begin:
            with path.open(errors="replace") as lines:
                yield from lines


def _last_change(path: Path) -> str:
    return _spelled(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def _counted(line: str) -> Written | None:
    if _ACCOUNTS not in line:
        return None
    event = json.loads(line)
    user, about = event["user"]["username"], event.get("objectRef") or {}
    resource = about.get("resource", "")
    is_election = resource == "leases" and about.get("namespace") == SYSTEM
    if not user.startswith(_ACCOUNTS) or event["verb"] not in _WRITING or resource in _LEFT_OUT or is_election:
        return None
    part = f"/{about['subresource']}" if about.get("subresource") else ""
    name = f"{about.get('namespace', '')}/{about.get('name', '')}".strip("/")
    code = int((event.get("responseStatus") or {}).get("code", 0))
    at = str(event["requestReceivedTimestamp"])
    return Written(at, user.removeprefix(_ACCOUNTS), event["verb"], f"{resource}{part} {name}", code)
