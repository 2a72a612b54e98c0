"""Connections of this process, as the kernel sees them: a loop that ends before they do leaves them open."""

import asyncio
import contextlib
from pathlib import Path


async def closed(port: int) -> None:
    """Wait until nothing here is connected to a port: TLS connections that were told to close take a moment."""
    async with asyncio.timeout(10):
        while _connected(port):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)


def _connected(port: int) -> int:
    """How many sockets of this process are connected to a port."""
    ours = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            ours.add(str(entry.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in ours for row in rows if row[2].endswith(f":{port:04X}"))
