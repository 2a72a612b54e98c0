"""The stores as the backends file and the mounted credentials say now; re-read when a file changes. Blocking.

A bad new file keeps the old one in force and says so in the log. Verified manifests are remembered as long as nothing
about their store changes: with other MAC keys they are verified anew.
"""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandhold.backends.load import BackendsInForce, find_backends
from sandhold.errors import InvalidError
from sandhold.mover import metrics
from sandhold.mover.grant import GrantError
from sandhold.snapshots.catalogue import Catalogue
from sandhold.snapshots.mac import MacKeys
from sandhold.snapshots.manifest import Place
from sandhold.snapshots.stores.credentials import read_credentials, stamp
from sandhold.snapshots.stores.failures import StoreTrouble
from sandhold.snapshots.stores.protocol import ObjectStore
from sandhold.snapshots.stores.s3 import S3Store
from sandhold.snapshots.stores.settings import S3StoreConfig
from sandhold.snapshots.summary import VerifiedManifests

_NO_FILE = "none"
"""Installation of a mover without a backends file: it has no store either, so nothing is ever kept under it."""

_log = logging.getLogger(__name__)


class StoreUnknownError(InvalidError):
    """The backends file has no such store."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store that is ready for use."""

    config: S3StoreConfig
    objects: ObjectStore
    keys: MacKeys
    verified: VerifiedManifests
    installation: str

    def place(self, slot: str) -> Place:
        """Where a slot lies in it."""
        return Place(self.config.prefix, self.installation, slot)

    def catalogue(self, slot: str) -> Catalogue:
        """What lies in one slot of it."""
        return Catalogue(self.objects, self.place(slot), self.keys, self.verified)


def open_store(name: str, config: S3StoreConfig, folder: Path, installation: str) -> OpenStore:
    """Read a store's credentials and make its client. Nothing is sent yet."""
    credentials = read_credentials(folder)
    objects = S3Store(name, config, credentials, _count_failure)
    return OpenStore(config, objects, credentials.mac_keys, VerifiedManifests(), installation)


def _count_failure(trouble: StoreTrouble) -> None:
    metrics.STORE_ERRORS.labels(trouble.value).inc()


class Stores:
    """All stores of the installation."""

    def __init__(self, backends: Path | None, folder: Path) -> None:
        self._file = find_backends(backends)
        self._backends = BackendsInForce(self._file, _NO_FILE)
        self._folder = folder
        self._file_stamp = self._file_stamp_now()
        self._open: dict[str, tuple[Any, OpenStore]] = {}
        self._lock = threading.Lock()

    def get(self, name: str, installation: str | None = None) -> OpenStore:
        """The store of this name, ready for use. A grant says which installation it is for."""
        with self._lock:
            self._reload()
            backends = self._backends.current()
            if installation not in {None, backends.installation_id}:
                raise GrantError("the grant is for another installation")
            config = backends.stores.get(name)
            if config is None:
                raise StoreUnknownError(f"store {name} is not in the backends file; add stores.{name} there")
            folder = self._folder / name
            mark = (config, stamp(folder), backends.installation_id)
            known = self._open.get(name)
            if known is None or known[0] != mark:
                known = (mark, open_store(name, config, folder, backends.installation_id))
                self._open[name] = known
            return known[1]

    def _reload(self) -> None:
        now = self._file_stamp_now()
        if now == self._file_stamp:
            return
        self._file_stamp = now
        for problem in self._backends.reload().problems:
            _log.error("the backends file keeps its old content in force: %s", problem)

    def _file_stamp_now(self) -> Any:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return None
        return (found.st_mtime_ns, found.st_ino, found.st_size)
