"""One play that branches: where something may go wrong this process forks, and the copy goes wrong and plays on.

Told anew for each of its faults, a story costs the square of its calls, and it is the same up to the fault every time.
What a branch found comes back through a pipe, nothing else of it does. One branch runs at a time, and none branches.

A fork copies what is in memory, and no more: for plays on fakes, never for one that has sockets, threads or processes.
"""

import asyncio
import gc
import os
import signal
import traceback
import warnings
from collections.abc import Awaitable, Callable, Collection
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from testkit.faults import Faults, Kind

T = TypeVar("T")


class Branching(Generic[T]):
    """One play and its branches."""

    def __init__(self) -> None:
        self.found: dict[str, T] = {}
        """What each branch came to, by its name."""
        self._trouble = ""
        """How the first branch failed that did; there are none after it."""
        self._trunk: Connection | None = None
        """Whom a branch tells what it found."""

    async def play(self, play: Callable[[], Awaitable[T]]) -> T:
        """Play to the end, and say what the play came to that nothing was done to; a branch that failed fails it."""
        try:
            found = await play()
        except BaseException:
            self._end_branch((True, traceback.format_exc()))
            raise
        self._end_branch((False, found))
        if self._trouble:
            raise AssertionError(self._trouble)
        return found

    def into(self, name: str) -> bool:
        """True in the copy, which is to go wrong now; False in the play that goes on, as soon as the copy has ended."""
        if self._trunk is not None or self._trouble:
            return False
        loop = asyncio.get_running_loop()
        theirs, ours = Pipe(duplex=False)
        branch = _fork()
        if branch == 0:
            # Python takes a loop for another process's in a copy. This one only runs what is ready, and shares nothing.
            asyncio._set_running_loop(loop)
            gc.disable()  # would touch, and so copy, all memory; the branch ends in milliseconds
            self._trunk = ours
            return True
        ours.close()
        try:
            self._hear(name, theirs)
        finally:
            # It has told what it had to tell, or is not awaited any more.
            os.kill(branch, signal.SIGKILL)
            os.waitpid(branch, 0)
        return False

    def _hear(self, name: str, branch: Connection) -> None:
        with branch:
            try:
                failed, told = branch.recv()
            except EOFError:
                failed, told = True, "the branch ended without a word"
        if failed:
            self._trouble = f"{name}: {told}"
        else:
            self.found[name] = told

    def _end_branch(self, told: tuple[bool, T | str]) -> None:
        """Nothing of a branch comes back from here: the rest of the test run is the trunk's."""
        if self._trunk is None:
            return
        try:
            self._trunk.send(told)
        finally:
            os._exit(0)


def _fork() -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn of threads, which are not copied: the test runner's own are none of a branch's business.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class BranchingFaults(Faults):
    """No fault at all in the trunk; a branch for each kind of fault at each call of some numbers."""

    def __init__(self, branching: Branching[T], kinds: Collection[Kind], numbers: Collection[int]) -> None:
        super().__init__()
        self._branching, self._kinds, self._numbers = branching, kinds, numbers

    def before(self, what: str) -> int:
        """A call arrives: every branch begins here, those included that go wrong after it."""
        number = len(self.calls)
        if number in self._numbers:
            for kind in self._kinds:
                if self._branching.into(f"{kind} at {number}: {what}"):
                    self.at[number] = kind
                    break
        return super().before(what)
