"""Entries as they travel to a keeper, and what becomes of a workspace that is prepared with them."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod
from testkit.keeper_stories import at_home, prepare


def entries_orders(entries: list[dict[str, Any]], size: int = 100) -> list[dict[str, Any]]:
    text = json.dumps(entries).encode()
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    digest = hashlib.sha256(text).hexdigest()
    return [
        {
            "verb": "entries",
            "digest": digest,
            "index": index,
            "count": len(parts),
            "data": base64.b64encode(part).decode(),
        }
        for index, part in enumerate(parts)
    ]


def file_entry(path: str, content: bytes = b"x", mode: int = 0o644) -> dict[str, Any]:
    return {"path": path, "kind": "File", "mode": mode, "content": base64.b64encode(content).decode()}


def folder_entry(path: str, mode: int = 0o755, **more: Any) -> dict[str, Any]:
    return {"path": path, "kind": "Directory", "mode": mode, **more}


def copy_entry(path: str, source: str, key: str = "", mode: int = 0o644, **more: Any) -> dict[str, Any]:
    how = {"key": key} if key else {"folderMode": 0o755}
    return {"path": path, "kind": "Copy", "mode": mode, "source": source, **how, **more}


async def preparing(pod: KeeperPod, mover: FakeMover, entries: list[dict[str, Any]], **fields: Any) -> None:
    """A keeper that was told to prepare a workspace with these entries."""
    orders = entries_orders(entries)
    await at_home(pod, mover)
    for order in orders:
        await mover.order(**order)
    await mover.order(**prepare(entriesDigest=orders[0]["digest"], **fields))


async def settled(mover: FakeMover) -> dict[str, Any]:
    """How the preparation went."""
    report = await mover.until_report(lambda report: report["workspace"]["state"] in ("Ready", "Failed"))
    workspace: dict[str, Any] = report["workspace"]
    assert "waitingFor" not in workspace
    return workspace


def content_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777
