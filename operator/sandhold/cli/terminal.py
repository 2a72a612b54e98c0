"""The caller's terminal: raw while a command runs in a container, its size as it changes, its input without blocking.

A terminal is always given back as it was found. It knows nothing of where input goes.
"""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator

CHUNK = 1 << 15


def is_terminal() -> bool:
    """Whether input comes from a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Every key goes to the other side, Ctrl-C included."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Columns and lines now, and whenever they change."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(sys.stdin.fileno())
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def typed() -> AsyncIterator[bytes]:
    """Standard input, part by part, the next one only when the last one was taken. Files and pipes alike.

    A thread reads, since a file cannot be waited for; it is no reason for the process to stay.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    wanted = threading.Semaphore(1)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        part = b"more"
        while part:
            wanted.acquire()
            try:
                part = os.read(descriptor, CHUNK)
            except OSError:
                part = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
                loop.call_soon_threadsafe(parts.put_nowait, part)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while part := await parts.get():
        yield part
        wanted.release()


async def write_output(content: bytes) -> None:
    """To standard output; in a thread, since a reader may be slow and input must not wait for it."""
    await asyncio.to_thread(_write, 1, content)


async def write_errors(content: bytes) -> None:
    """To standard error."""
    await asyncio.to_thread(_write, 2, content)


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
