"""The real mover as a real process on loopback, with all the files that it finds mounted in a cluster."""

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.pki import Installation
from testkit.ports import free_ports
from testkit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from testkit.token_review_server import OWN_TOKEN, TokenReviewServer
from testkit.wire_keeper import ONE_FILE, Peer, dialled, hello

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_SOURCE_ROOT = Path(__file__).resolve().parents[2] / "operator"
_numbers = itertools.count(1)
MAC_KEYS: dict[str, Any] = {"current": "k1", "keys": {"k1": "11" * 32}}


@dataclass(frozen=True)
class Pod:
    """A pod that may call home, and the slot that is its own."""

    uid: str
    slot: str
    token: str


def new_pod(reviews: TokenReviewServer) -> Pod:
    """A pod that no other test has."""
    number = next(_numbers)
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return Pod(uid, f"slot{number}", reviews.issue(uid, pod_name=f"pod-{number}"))


async def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what another process does, and fail if it does not."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(holds):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds:g} s")
        await asyncio.sleep(0.02)


class MoverProcess:
    """One mover."""

    def __init__(self, folder: Path, installation: Installation, reviews: TokenReviewServer) -> None:
        self.installation = installation
        self.reviews = reviews
        ports = free_ports(5)
        self.keeper_port, self.operator_port, self.canary_port, self.health_port, self.metrics_port = ports
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "log"
        self._backends = folder / "backends.json"
        installation.write_mover_tls(folder / "tls")
        account = folder / "account"
        account.mkdir()
        (account / "token").write_text(OWN_TOKEN)
        self.write_backends({})

    def write_backends(self, stores: dict[str, dict[str, Any]]) -> None:
        """Say which stores there are; a running mover notices."""
        content = {
            "installation_id": self.installation.installation_id,
            "default_tier": "runc",
            "tiers": {"runc": {"runtime_class": "runc", "egress": {"cni": {}}}},
            "stores": stores,
        }
        fresh = self._backends.with_suffix(".new")
        fresh.write_text(json.dumps(content))
        fresh.replace(self._backends.with_suffix(".json"))

    def write_credentials(self, store: str, mac_keys: dict[str, Any] = MAC_KEYS, secret: str = SECRET_KEY) -> None:
        """Put a store's credentials where the mover finds them."""
        folder = self._folder / "stores" / store
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("access-key-id", ACCESS_KEY),
            ("secret-access-key", secret),
            ("mac-keys.json", json.dumps(mac_keys)),
        ):
            fresh = folder / f"{name}.new"
            fresh.write_text(text)
            fresh.replace(folder / name)

    def use(self, s3: S3Server, **fields: Any) -> None:
        """Have one store, `main`, on this server."""
        store = {"type": "s3", "endpoint": s3.endpoint, "bucket": s3.bucket, "prefix": "sandboxes/", **fields}
        self.write_backends({"main": store})
        self.write_credentials("main")

    def remove_file(self, name: str) -> None:
        """Take a file away that it needs."""
        (self._folder / name).unlink()

    def start(self) -> None:
        """Start, and wait until it is ready."""
        process = self.start_and_fail()
        deadline = time.monotonic() + _START_SECONDS
        while self.probe("/readyz") != 200:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the mover did not become ready:\n{self.log()}")
            time.sleep(0.02)

    def start_and_fail(self) -> subprocess.Popen[bytes]:
        """Start, and wait for nothing."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(_SOURCE_ROOT),
            "SANDHOLD_TLS_DIRECTORY": str(self._folder / "tls"),
            "SANDHOLD_STORES_DIRECTORY": str(self._folder / "stores"),
            "SANDHOLD_BACKENDS": str(self._backends),
            "SANDHOLD_SERVICE_ACCOUNT_DIRECTORY": str(self._folder / "account"),
            "SANDHOLD_KUBERNETES_API": self.reviews.url,
            "SANDHOLD_LISTEN_ADDRESS": "127.0.0.1",
            "SANDHOLD_KEEPER_PORT": str(self.keeper_port),
            "SANDHOLD_OPERATOR_PORT": str(self.operator_port),
            "SANDHOLD_CANARY_PORT": str(self.canary_port),
            "SANDHOLD_HEALTH_PORT": str(self.health_port),
            "SANDHOLD_METRICS_PORT": str(self.metrics_port),
            "SANDHOLD_LOG_LEVEL": "DEBUG",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from sandhold.mover.program import main; main()"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        return self._process

    def probe(self, path: str) -> int:
        """What a probe of the kubelet's gets; 0 without an answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.health_port), timeout=2) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                return int(connection.recv(64).split(b" ")[1])
        except (OSError, IndexError):
            return 0

    def metrics(self) -> str:
        """What a scraper gets."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
        return text

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series; 0 where it was never touched."""
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in self.metrics().splitlines():
            series, _, value = line.rpartition(" ")
            found, _, rest = series.partition("{")
            if found == name and set(filter(None, rest.rstrip("}").split(","))) == wanted:
                return float(value)
        return 0.0

    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """Its process."""
        if self._process is None:
            raise AssertionError("the mover is not running")
        return self._process.pid

    def kill(self) -> None:
        """End it without a warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code."""
        if self._process is None:
            raise AssertionError("the mover is not running")
        code = self._process.wait(_STOP_SECONDS)
        self._process = None
        return code

    @asynccontextmanager
    async def keeper(self, purpose: str, token: str, grant: str = "") -> AsyncIterator[Peer]:
        """A keeper's connection, up to and with the answer to its hello, which must be `welcome`."""
        async with dialled(self.keeper_port, self.installation.keeper_tls()) as peer:
            await peer.say(hello(purpose, token, grant))
            answer = await peer.hear()
            if answer["type"] != "welcome":
                raise AssertionError(answer)
            yield peer

    async def archive(
        self, pod: Pod, layer: bytes, records: Sequence[dict[str, Any]] = ONE_FILE, **fields: Any
    ) -> dict[str, Any]:
        """The mover's last word on a pod's archive of this layer; `fields` are the grant's."""
        async with self.keeper(
            "archive", pod.token, self.installation.grant("archive", pod.uid, pod.slot, **fields)
        ) as peer:
            await peer.send_archive(layer, records)
            return await peer.hear()

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Peer]:
        """An operator's connection on which nothing was heard yet."""
        async with dialled(self.operator_port, self.installation.operator_tls()) as peer:
            yield peer
