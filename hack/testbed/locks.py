"""One run at a time: file locks, which the kernel lets go of however their holder ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from testbed import waiting


@contextmanager
def held(path: Path, holder: str, *, seconds: float) -> Iterator[None]:
    """Hold this lock; say whom we wait for when it is taken, and give up when it stays so for too long."""
    with path.open("w") as lock:
        if not _taken(lock):
            print(f"{holder} is at work; waiting for it to end", flush=True)
            waiting.until(f"{holder} ends", lambda: _taken(lock), seconds=seconds, every=0.2)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
