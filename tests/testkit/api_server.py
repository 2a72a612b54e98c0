"""A real etcd and a real kube-apiserver on loopback, without a kubelet: for tests of what is written to the API server.

Nothing acts on what is stored there: no scheduler, no garbage collection, no pod ever runs. The binaries are those of
the test cluster (`hack/cluster build`); nothing else of the test cluster is used or touched.
"""

import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from testbed import places
from testbed.components import COMPONENTS
from testkit.ports import free_ports

READY_SECONDS = 90.0
STOP_SECONDS = 10.0
REQUEST_SECONDS = 30.0
ATTEMPTS = 3
CRDS = Path(__file__).resolve().parents[2] / "crds"
GROUP = "/apis/sandhold.dev/v1alpha1"


def binaries() -> Path | None:
    """The folder with `etcd` and `kube-apiserver`, if it was built."""
    kube = next(component for component in COMPONENTS if component.name == "kube")
    folder = kube.directory(places.cache())
    return folder if (folder / "kube-apiserver").exists() else None


class EndedError(RuntimeError):
    """A process ended that should serve."""


class ApiServer:
    """One of them, in a temporary folder. `start` returns when it is ready; `stop` leaves no process behind."""

    def __init__(self, folder: Path, binary_folder: Path) -> None:
        self._folder = folder
        self._binaries = binary_folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._key = folder / "service-accounts.key"
        self._plurals: list[str] = []
        self.token = secrets.token_hex(16)
        self.port, self._etcd_port, self._peer_port = free_ports(3)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator."""
        return self._folder / "kubeconfig"

    def start(self) -> Self:
        """Start both, wait until they serve, and make our kinds known."""
        (self._folder / "keys").mkdir(parents=True)
        (self._folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", str(self._key), "2048"], check=True, capture_output=True)
        try:
            self._serve_somewhere()
            self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
            self._install_crds()
        except BaseException:
            self.stop()
            raise
        return self

    def _serve_somewhere(self) -> None:
        """Ports that were free a moment ago may be another test run's by now: then others are tried."""
        for attempt in range(ATTEMPTS):
            try:
                self._spawn("etcd", self._etcd_arguments())
                self._spawn("kube-apiserver", self._apiserver_arguments())
                self._until("the API server is ready", self._is_ready)
            except EndedError:
                self.stop()
                if attempt == ATTEMPTS - 1:
                    raise
                self.port, self._etcd_port, self._peer_port = free_ports(3)
            else:
                return

    def stop(self) -> None:
        """The API server first: without etcd it would only complain for a while."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def restart(self) -> None:
        """The API server is killed and comes back with the same content."""
        killed = self._processes.pop()
        killed.kill()
        killed.wait()
        self._spawn("kube-apiserver", self._apiserver_arguments())
        self._until("the API server is ready again", self._is_ready)
        self._until_our_kinds_are_served()

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request past the door: what others do to the objects. PATCH is a merge patch."""
        data = json.dumps(body).encode() if body is not None else None
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return dict(json.loads(self._send(method, path, data, {"Content-Type": content_type}) or b"{}"))

    def watches(self, *labels: str) -> int:
        """How many watches are open on it, its own among them; only those with these labels, as in `group="apps"`."""
        series = self._send("GET", "/metrics").decode().splitlines()
        wanted = ("apiserver_longrunning_requests{", 'verb="WATCH"', *labels)
        return round(sum(float(line.rpartition(" ")[2]) for line in series if all(word in line for word in wanted)))

    def _send(
        self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - loopback
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls())
        )
        with opener.open(request, timeout=REQUEST_SECONDS) as answer:
            return bytes(answer.read())

    def add_namespace(self, name: str) -> str:
        """A namespace of its own keeps tests apart."""
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        # The admission of pods wants it, and there is no controller that would make it.
        self.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        return name

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._folder / "keys" / "apiserver.crt"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def _is_ready(self) -> bool:
        try:
            self.request("GET", "/api/v1/namespaces/default")
            # The authorizer's roles come a moment after the server itself.
            self.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def _install_crds(self) -> None:
        kinds = [document for path in sorted(CRDS.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]
        for kind in kinds:
            self.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind)
        self._plurals = [kind["spec"]["names"]["plural"] for kind in kinds]
        self._until_our_kinds_are_served()

    def _until_our_kinds_are_served(self) -> None:
        self._until("our kinds are served", lambda: all(self._is_served(plural) for plural in self._plurals))

    def _is_served(self, plural: str) -> bool:
        try:
            self.request("GET", f"{GROUP}/{plural}")
        except urllib.error.HTTPError:
            return False
        return True

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not holds():
            for process in self._processes:
                if process.poll() is not None:
                    raise EndedError(f"a process ended with {process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {READY_SECONDS:.0f} s still not: {what}: {self._last_words()}")
            time.sleep(0.05)

    def _last_words(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)

    def _spawn(self, name: str, arguments: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self._binaries / name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self._processes.append(process)

    def _etcd_arguments(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            *("--name", "test", "--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"test={peer}"),
        ]

    def _apiserver_arguments(self) -> list[str]:
        return [
            *(f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={self.port}", f"--cert-dir={self._folder / 'keys'}"),
            *("--authorization-mode=RBAC", f"--token-auth-file={self._folder / 'tokens.csv'}"),
            *("--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc"),
            *(f"--service-account-key-file={self._key}", f"--service-account-signing-key-file={self._key}"),
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        ]

    def _kubeconfig(self) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self._folder / "keys" / "apiserver.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }


def server_for_tests(folder: Path) -> Iterator[ApiServer]:
    """The one server of a test session. Without its binary tests are skipped; where everything must run, they fail."""
    found = binaries()
    if found is None:
        reason = "the API server's binary is not in the cache: run `hack/cluster build`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = ApiServer(folder, found).start()
    yield server
    server.stop()
