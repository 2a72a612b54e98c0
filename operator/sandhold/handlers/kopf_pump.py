"""kopf as the watch pump: raw events only, no state of its own on any object, no Events, no peering, no scanning.

kopf re-opens watches that end or fall silent, and lists anew when its place in the stream is lost. An error inside a
stream it does not mend: its tasks end, and so does `run`. Its deletions are not to be relied upon (an object that
vanished while it listed anew is never told), which is what `relist.py` is for.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kopf
from kubernetes_asyncio.client import Configuration

from sandhold.handlers.pump import EventSink, WatchedKind, WatchFailedError
from sandhold.heartbeats import Heartbeats

SERVER_SECONDS = 600
SILENT_SECONDS = 70
LOGIN_MINUTES = 10
STOP_SECONDS = 3.0
DRAIN_SECONDS = 0.5
LOOK_SECONDS = 5.0
WATCHERS_SECONDS = 90.0
"""kopf finds the kinds before it watches them; a kind without a watcher for so long has none coming."""
_KOPF_FOLDER = str(Path(kopf.__file__).parent)


class KopfPump:
    """One run of kopf in this event loop."""

    def __init__(
        self,
        configuration: Configuration,
        kinds: Collection[WatchedKind],
        after_start: Callable[[], None] = lambda: None,
        *,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeats = heartbeats or Heartbeats()
        self._configuration = configuration
        self._kinds = kinds
        # kopf takes the signals of the process for itself when it starts; whoever embeds it takes them back here.
        self._after_start = after_start

    async def run(self, sink: EventSink) -> None:
        """Deliver events until cancelled."""
        failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        registry = self._registry(sink, failure)
        # Without an identity kopf looks for the user's name, and in an image the user has none.
        identity: Any = "sandhold"
        tasks = await kopf.spawn_tasks(
            registry=registry, settings=self._settings(), identity=identity, standalone=True, clusterwide=True
        )
        self._after_start()
        try:
            done = await self._watch_over({*tasks, failure})
        finally:
            await _stop(tasks)
            failure.cancel()
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                raise WatchFailedError(f"the watches ended: {type(error).__name__}: {error}") from error
        raise WatchFailedError("the watches ended without a word")

    async def _watch_over(self, tasks: Collection[asyncio.Future[Any]]) -> set[asyncio.Future[Any]]:
        """Wait for the end of any of kopf's tasks. It is a sign of life that there is a watcher for each kind."""
        beat = self._heartbeats.loop("watches", WATCHERS_SECONDS)
        done: set[asyncio.Future[Any]] = set()
        while not done:
            done, _ = await asyncio.wait(tasks, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if sum(task.get_name().startswith("watcher for ") for task in _kopfs_tasks()) >= len(self._kinds):
                beat()
        return done

    def _settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.watching.server_timeout = SERVER_SECONDS
        settings.watching.inactivity_timeout = SILENT_SECONDS
        settings.watching.connect_timeout = 10
        settings.watching.chunk_size = 500
        settings.networking.request_timeout = 30
        settings.queueing.idle_timeout = 1.0
        settings.queueing.exit_timeout = DRAIN_SECONDS
        settings.process.ultimate_exiting_timeout = None
        for kind in self._kinds:
            if kind.selector:
                resource = kind.resource
                where = (resource.group, resource.version, resource.plural)
                settings.watching.label_selectors[where] = kind.selector
        return settings

    def _registry(self, sink: EventSink, failure: asyncio.Future[None]) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        for kind in self._kinds:
            resource = kind.resource
            deliver = _delivery(kind, sink, failure)
            where = (resource.group, resource.version, resource.plural)
            kopf.on.event(*where, id=f"watch-{resource.plural}", registry=registry)(deliver)
        return registry

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        """The same identity as the door's. It expires, so that a rotated token is read in time."""
        configuration = self._configuration
        token = await configuration.get_api_key_with_prefix("BearerToken")
        return kopf.ConnectionInfo(
            server=str(configuration.host),
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            token=token.removeprefix("Bearer ") if token else None,
            expiration=datetime.now(UTC) + timedelta(minutes=LOGIN_MINUTES),
        )


def _delivery(kind: WatchedKind, sink: EventSink, failure: asyncio.Future[None]) -> Callable[..., Any]:
    """A handler of one kind. kopf would swallow what it raises, so that is passed on past kopf."""

    async def deliver(event: kopf.RawEvent, **_: Any) -> None:
        obj = {**event["object"], "apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        try:
            if event["type"] == "DELETED":
                sink.deleted(obj)
            else:
                sink.changed(obj, is_listed=event["type"] is None)
        except Exception as error:
            if not failure.done():
                failure.set_exception(error)
            raise

    return deliver


async def _stop(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel kopf's watchers, then its main tasks, then what is left, and give each a moment.

    What they say on the way out is of no use. A watcher that fails leaves its siblings running, known to nobody but by
    whose code they run. They go first: one that outlives its helpers or the shared session begins anew.
    """
    await _cancel([task for task in _kopfs_tasks() if task.get_name().startswith("watcher")])
    await _cancel(tasks)
    await _cancel(_kopfs_tasks())


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    done, _ = await asyncio.wait(tasks, timeout=STOP_SECONDS)
    for task in done:
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()


def _kopfs_tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if _is_kopfs(task)]


def _is_kopfs(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_filename.startswith(_KOPF_FOLDER)
