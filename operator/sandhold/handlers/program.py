"""The program `sandhold-operator`: start order, loops, and an end that is quick, however it comes about.

Order: configuration, CA, caches, watches and movers; then the election, and only its winner makes passes. SIGTERM gives
the Lease back and exits 0. A watch that cannot be mended, a lost Lease or a defect of a loop exits non-zero: the next
process observes the world anew, which is the only recovery there is.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Iterator

import uvloop
from kubernetes_asyncio.config import ConfigException
from pydantic import ValidationError

from sandhold import logs
from sandhold.backends.load import BackendsInForce, find_backends
from sandhold.cluster.client import KubeDoor, is_in_cluster, load_configuration
from sandhold.cluster.door import Door
from sandhold.cluster.election import Election, LeaseLostError
from sandhold.cluster.movers import MoverConnections
from sandhold.cluster.pki import OperatorTls, ensure_authority
from sandhold.desired.plan import Reference
from sandhold.errors import ForbiddenError, InvalidError, SandholdError, UnavailableError
from sandhold.handlers.assembly import assemble, utc_now
from sandhold.handlers.kopf_pump import KopfPump
from sandhold.handlers.loops import Operator
from sandhold.handlers.pump import WatchFailedError
from sandhold.heartbeats import Heartbeats
from sandhold.settings import OperatorSettings

STOP_SECONDS = 5.0
_log = logging.getLogger(__name__)


class StartError(SandholdError):
    """The API server was not there when we started: Kubernetes starts us again, later each time."""


EXPECTED = (StartError, WatchFailedError, LeaseLostError, InvalidError, ForbiddenError, ConfigException)
"""Ends that explain themselves; every other one is logged with where it came from."""


def main() -> None:
    """Run until a signal or a failure."""
    try:
        settings = OperatorSettings()  # type: ignore[call-arg]  # from the environment
    except ValidationError as error:
        faults = "; ".join(f"SANDHOLD_{str(fault['loc'][0]).upper()}: {fault['msg']}" for fault in error.errors())
        sys.exit(f"sandhold-operator: the environment is not usable: {faults}")
    logs.configure(settings.log_level, settings.log_format)
    sys.exit(uvloop.run(run(settings)))


async def run(settings: OperatorSettings) -> int:
    """Run the operator; the process's exit code."""
    stopping = asyncio.Event()
    take_signals(stopping)
    operating = asyncio.create_task(operate(settings, stopping), name="operator")
    waiting = asyncio.create_task(stopping.wait(), name="signal")
    await asyncio.wait({operating, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not operating.done():
        _log.info("stopping")
        operating.cancel()
        await asyncio.wait({operating}, timeout=STOP_SECONDS)
        return 0
    error = operating.exception() if not operating.cancelled() else None
    for leaf in leaves(error):
        _log.critical("the operator ends: %s", leaf, exc_info=None if isinstance(leaf, EXPECTED) else leaf)
    return 1


def take_signals(stopping: asyncio.Event) -> None:
    """SIGTERM and SIGINT end the process in order; taken (back) from whichever library took them."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)


def leaves(error: BaseException | None) -> Iterator[BaseException]:
    """The errors inside groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    elif error is not None:
        yield error


async def operate(settings: OperatorSettings, stopping: asyncio.Event) -> None:
    """Connect, put the parts together, and run them until cancelled."""
    configuration = await load_configuration(in_cluster=is_in_cluster())
    door = KubeDoor(configuration)
    try:
        try:
            backends = await load(door, settings)
            authority = await ensure_authority(door, settings.namespace, utc_now())
        except UnavailableError as error:
            raise StartError(str(error)) from error
        heartbeats = Heartbeats()
        movers = MoverConnections(OperatorTls(authority, utc_now), heartbeats=heartbeats)
        election = Election(door, settings.namespace, settings.pod_name, settings.lease_seconds, heartbeats=heartbeats)
        parts = assemble(
            door=door,
            movers=movers,
            settings=settings,
            backends=backends.current,
            authority=authority,
            leads=lambda: election.is_held,
            heartbeats=heartbeats,
        )
        pump = KopfPump(configuration, parts.kinds, after_start=lambda: take_signals(stopping), heartbeats=heartbeats)
        operator = Operator(
            door=door,
            movers=movers,
            parts=parts,
            pump=pump,
            settings=settings,
            backends=backends,
            authority=authority,
            election=election,
        )
        await operator.run()
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await door.close()


async def load(door: Door, settings: OperatorSettings) -> BackendsInForce:
    """The backends file, or what holds without one: an installation named after the operator's namespace."""
    path = find_backends(settings.backends)
    if path is not None:
        return BackendsInForce(path, "")
    namespace = await door.get(Reference("v1", "Namespace", "", settings.namespace))
    return BackendsInForce(None, f"ns-{namespace['metadata']['uid']}")
