"""What the demonstration shows with: steps with their times, commands with their output, claims that must hold."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from installation.client import Cluster
from testbed.failure import TestbedError

_LONGEST_OUTPUT = 40


class Stage:
    """Shows and remembers."""

    def __init__(self) -> None:
        self._times: list[tuple[str, float]] = []
        self._began = time.monotonic()
        self.claims = 0

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step; its time goes into the table at the end."""
        print(f"\n=== {title}", flush=True)
        began = time.monotonic()
        yield
        self._times.append((title, time.monotonic() - began))

    def say(self, text: str) -> None:
        """A line of our own."""
        print(text, flush=True)

    def claim(self, text: str, *, holds: bool, seen: object = "") -> None:
        """Something that must be so; the demonstration ends here when it is not."""
        if not holds:
            raise TestbedError(f"this does not hold: {text} (seen: {str(seen)[:2000]})")
        self.claims += 1
        print(f"  holds: {text}", flush=True)

    def kubectl(self, cluster: Cluster, *words: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Show a command and what it prints."""
        print(f"$ kubectl {' '.join(words)}", flush=True)
        said = cluster.kubectl(*words, stdin=stdin, timeout=timeout)
        self.show(said)
        return said

    def show(self, said: str) -> None:
        """Output of a program, bounded."""
        lines = said.rstrip("\n").splitlines()
        for line in lines[:_LONGEST_OUTPUT]:
            print(f"  {line}")
        if len(lines) > _LONGEST_OUTPUT:
            print(f"  ({len(lines) - _LONGEST_OUTPUT} more lines)")
        sys.stdout.flush()

    def table(self) -> None:
        """How long everything took."""
        print("\n=== Times")
        width = max(len(title) for title, _ in self._times)
        for title, seconds in self._times:
            print(f"  {title:{width}}  {seconds:7.1f} s")
        print(f"  {'in all':{width}}  {time.monotonic() - self._began:7.1f} s")
        print(f"\n{self.claims} claims held.", flush=True)
