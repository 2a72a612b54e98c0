"""A connection for one command, and the time that the whole command may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandhold.cli.api import Api
from sandhold.cli.call import Call
from sandhold.cli.connection import connect
from sandhold.cli.failures import timed_out, unreachable

USUAL_SECONDS = 30.0
WAIT_SECONDS = 900.0


@asynccontextmanager
async def opened(call: Call, seconds: float | None = USUAL_SECONDS) -> AsyncIterator[Api]:
    """The API server of a call. `seconds` is the usual limit; None sets none unless the caller does.

    Signing in is not counted: it may wait for a person, and has a bound of its own.
    """
    limit = call.timeout if seconds is None else call.seconds(seconds)
    connection = await connect(call.kubeconfig, call.context)
    if call.namespace is not None:
        connection.namespace = call.namespace
    async with Api(connection) as api:
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                yield api
        except TimeoutError as error:
            if limit is None or not scope.expired():
                raise unreachable(api.host, error) from error
            what = f"not done within {limit:g} s; what was asked for goes on by itself"
            raise timed_out(what, "look at it with `sandhold session ls`, or give it longer with --timeout") from error
