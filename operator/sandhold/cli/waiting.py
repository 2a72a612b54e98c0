"""Waiting for a session by a watch, with a word about what is going on, until a time limit that somebody else holds.

A connection that breaks is made again: an API server that restarts is no reason to give up a stop. What is waited for,
and what counts as a failure, the caller's judge says.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager

from sandhold.cli.api import Api, Object
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.printing import note

SESSION = "SandboxSession"
REMINDER_SECONDS = 15.0
PAUSE_SECONDS = 1.0
Judge = Callable[[Object | None], str | None]
"""Given the object (None: absent), what is still waited for; None when nothing is. A failure it raises."""
Tell = Callable[[str], None]


async def wait_for(api: Api, namespace: str, name: str, judge: Judge) -> Object | None:
    """Wait until the judge has nothing more to wait for; the object as it was then."""
    with _telling(name) as tell:
        async with aclosing(_states(api, namespace, name, tell)) as states:
            async for found in states:
                left = judge(found)
                if left is None:
                    return found
                tell(left)
    raise AssertionError("states come without end")


async def _states(api: Api, namespace: str, name: str, tell: Tell) -> AsyncGenerator[Object | None, None]:
    """The object as it is, and after every change."""
    while True:
        try:
            found = await _look(api, namespace, name)
            yield found
            if found is not None:
                version = str(found["metadata"].get("resourceVersion", ""))
                async with aclosing(api.watch(SESSION, namespace, name, version)) as events:
                    async for kind, seen in events:
                        if kind in ("ADDED", "MODIFIED", "DELETED"):
                            yield None if kind == "DELETED" else seen
                        elif kind == "ERROR":
                            break  # the version is too old by now: look again
        except CliError as error:
            if error.code is not ExitCode.UNREACHABLE:
                raise
            tell(f"{error.message}; trying again")
        await asyncio.sleep(PAUSE_SECONDS)


async def _look(api: Api, namespace: str, name: str) -> Object | None:
    try:
        return await api.get(SESSION, namespace, name)
    except CliError as error:
        if error.code is ExitCode.NOT_FOUND:
            return None
        raise


@contextmanager
def _telling(name: str) -> Iterator[Tell]:
    """Says each new thing once, and now and then that it is still so."""
    began, said, at = time.monotonic(), "", 0.0

    def tell(line: str) -> None:
        nonlocal said, at
        if line != said:
            said, at = line, time.monotonic()
            note(f"{name}: {line}")

    async def remind() -> None:
        while True:
            await asyncio.sleep(REMINDER_SECONDS)
            now = time.monotonic()
            if said and now - at >= REMINDER_SECONDS:
                note(f"{name}: {said} ({now - began:.0f} s)")

    reminder = asyncio.create_task(remind())
    try:
        yield tell
    finally:
        reminder.cancel()
