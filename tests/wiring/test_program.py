"""`sandhold-operator` as a real process on a real API server: how it starts, takes over, refuses and ends."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sandhold import names
from sandhold.handlers.pump import watched_kinds
from testkit.api_server import GROUP, ApiServer
from testkit.ports import free_port, free_ports

SECONDS = 30.0


def eventually(holds: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Process:
    """One operator process."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        self.health, self.metrics = free_ports(2)
        ports = {"SANDHOLD_HEALTH_PORT": str(self.health), "SANDHOLD_METRICS_PORT": str(self.metrics)}
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", "from sandhold.handlers.program import main; main()"],
                env={**environment, **ports},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def asked(self, port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self) -> bool:
        return self.asked(self.health, "/readyz") == (200, "ok")

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def ends(self, seconds: float = SECONDS) -> int:
        return self.popen.wait(seconds)


class Installation:
    """An operator namespace, a configuration, and the processes that were started on it."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        self.server = server
        self.namespace = namespace
        self.folder = folder
        self.processes: list[Process] = []
        self.backends = folder / "sandbox-backends.json"
        tier = {"runtime_class": "runc", "egress": {"cni": {}}, "default_image": "example.invalid/agent:1"}
        self.document: dict[str, Any] = {
            "installation_id": namespace,
            "default_tier": "runc",
            "tiers": {"runc": tier},
        }
        self.backends.write_text(json.dumps(self.document))

    def environment(self, **more: str) -> dict[str, str]:
        root = Path(__file__).resolve().parents[2]
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(root / "operator"),
            "KUBECONFIG": str(self.server.kubeconfig),
            "SANDHOLD_NAMESPACE": self.namespace,
            "SANDHOLD_KEEPER_IMAGE": "example.invalid/keeper:1",
            "SANDHOLD_BACKENDS": str(self.backends),
            "SANDHOLD_LEASE_SECONDS": "60",
            **more,
        }

    def start(self, **more: str) -> Process:
        process = Process(self.environment(**more), self.folder / f"operator-{len(self.processes)}.log")
        self.processes.append(process)
        return process

    def logs(self) -> str:
        """What the processes said, for whoever reads a failure."""
        return "\n".join(f"{process.log.name}: {process.log.read_text()[-3000:]}" for process in self.processes)

    def stop_all(self) -> None:
        for process in self.processes:
            process.popen.kill()
            process.popen.wait()

    def lease(self) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{names.ELECTION_LEASE}"
        return dict(self.server.request("GET", path)["spec"])

    def holder(self) -> str:
        try:
            return str(self.lease().get("holderIdentity", ""))
        except urllib.error.HTTPError:
            return ""


@pytest.fixture
def installation(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(api_server, namespace, tmp_path)
    yield made
    made.stop_all()
    print(made.logs())  # noqa: T201 - shown by pytest when the test has failed


@pytest.fixture(scope="module")
def furnished(api_server: ApiServer) -> None:
    """What a cluster has and an API server alone does not: a runtime class, endpoints of the API server, a node."""
    api_server.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "runc"}, "handler": "runc"})
    api_server.request(
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "metadata": {"name": "kubernetes-test", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.10"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": 6443}],
        },
    )


def sandbox(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "AgentSandbox",
        "metadata": {"name": "coder"},
        "spec": {"snapshot": {"onStop": False}, **spec},
    }


def session() -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SandboxSession",
        "metadata": {"name": "quill"},
        "spec": {"sandboxRef": {"name": "coder"}},
    }


def ready_reason(server: ApiServer, namespace: str, plural: str, name: str) -> tuple[str, str]:
    status = server.request("GET", f"{GROUP}/namespaces/{namespace}/{plural}/{name}").get("status", {})
    found = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    return (found["status"], found["reason"]) if found else ("", "")


def test_a_missing_setting_is_named(installation: Installation) -> None:
    environment = installation.environment()
    del environment["SANDHOLD_KEEPER_IMAGE"]
    process = Process(environment, installation.folder / "log")
    assert process.ends() != 0
    assert process.says("SANDHOLD_KEEPER_IMAGE")
    assert not process.says("Traceback")


def test_a_bad_backends_file_ends_the_start_with_its_reason(installation: Installation) -> None:
    installation.backends.write_text('{"installation_id": "x", "default_tier": "nope", "tiers": {}}')
    process = installation.start()
    assert process.ends() == 1
    assert process.says("tiers")
    assert not process.says("Traceback")
    assert installation.holder() == ""


def test_an_api_server_that_is_away_ends_the_start(installation: Installation) -> None:
    kubeconfig = installation.folder / "kubeconfig"
    text = installation.server.kubeconfig.read_text().replace(
        installation.server.url, f"https://127.0.0.1:{free_port()}"
    )
    kubeconfig.write_text(text)
    process = installation.start(KUBECONFIG=str(kubeconfig))
    assert process.ends() == 1
    assert not process.says("Traceback")


@pytest.mark.usefixtures("furnished")
def test_a_life(installation: Installation) -> None:
    """Start, lead, make walls, refuse and recover, see a bad configuration off, end in order."""
    server, namespace = installation.server, installation.namespace
    process = installation.start()
    eventually(process.is_ready, "ready")
    eventually(installation.holder, "leading")
    secret = server.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{names.CA_SECRET}")
    eventually(lambda: process.asked(process.health, "/livez") == (200, "ok"), "alive")

    server.request("POST", f"{GROUP}/namespaces/{namespace}/sandboxsessions", session())
    wanted = ("False", "SandboxUnavailable")
    eventually(lambda: ready_reason(server, namespace, "sandboxsessions", "quill") == wanted, "refused")
    server.request("POST", f"{GROUP}/namespaces/{namespace}/agentsandboxes", sandbox())
    eventually(lambda: ready_reason(server, namespace, "agentsandboxes", "coder")[0] == "True", "walls stand")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    found = ready_reason(server, namespace, "sandboxsessions", "quill")
    assert not server.request("GET", pods)["items"], f"no pod without a mover to call home to: {found}"

    installation.backends.write_text("{")
    eventually(lambda: process.says("not in force"), "a bad file is reported")
    assert process.is_ready()

    code, text = process.asked(process.metrics, "/metrics")
    assert code == 200
    assert "sandhold_leader 1.0" in text
    # At least once: the operator sees the sessions of every test that shares this API server.
    assert re.search(
        r'^sandhold_refusals_total{code="sandbox_unavailable",kind="SandboxSession"} [1-9]', text, re.MULTILINE
    )
    assert 'sandhold_sessions{phase="Starting"}' in text
    assert "sandhold_backends_stale 1.0" in text
    assert 'sandhold_heartbeat_age_seconds{loop="watches"}' in text
    key = base64.b64decode(secret["data"]["ca.key"]).decode()
    assert key.splitlines()[1] not in process.log.read_text()
    assert server.token not in process.log.read_text()

    started = time.monotonic()
    process.popen.send_signal(signal.SIGTERM)
    assert process.ends() == 0
    assert time.monotonic() - started < 10
    assert installation.holder() == "", "the Lease is given back"
    lines = [json.loads(line) for line in process.log.read_text().splitlines()]
    assert all(list(line)[:4] == ["ts", "level", "logger", "msg"] for line in lines)
    about = [line for line in lines if line.get("name") == "quill"]
    assert about
    assert all({"kind", "namespace", "uid", "pass"} <= line.keys() for line in about)
    assert [line["msg"] for line in lines if line["level"] == "ERROR"] == ["the new backends file is not in force"]


def test_the_next_in_line_takes_over_at_once_from_one_that_ends_in_order(installation: Installation) -> None:
    first = installation.start()
    eventually(installation.holder, "one leads")
    leader = installation.holder()
    second = installation.start()
    eventually(second.is_ready, "the standby is ready too")
    assert installation.holder() == leader
    first.popen.send_signal(signal.SIGTERM)
    eventually(lambda: installation.holder() not in ("", leader), "the second leads long before a Lease would end", 20)
    assert first.ends() == 0


def test_the_next_in_line_waits_for_the_end_of_a_killed_ones_lease(installation: Installation) -> None:
    seconds = 4
    first = installation.start(SANDHOLD_LEASE_SECONDS=str(seconds))
    eventually(installation.holder, "one leads")
    leader = installation.holder()
    second = installation.start(SANDHOLD_LEASE_SECONDS=str(seconds))
    eventually(second.is_ready, "the standby is ready")
    first.popen.kill()
    first.popen.wait()
    last = datetime.fromisoformat(installation.lease()["renewTime"])
    eventually(lambda: installation.holder() not in ("", leader), "the second leads")
    taken = datetime.fromisoformat(installation.lease()["acquireTime"])
    assert (taken - last).total_seconds() >= seconds, "nobody takes a Lease that may still be held"


def test_a_lost_lease_ends_the_process(installation: Installation) -> None:
    process = installation.start(SANDHOLD_LEASE_SECONDS="10")
    eventually(installation.holder, "leading")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{installation.namespace}/leases/{names.ELECTION_LEASE}"
    installation.server.request("PATCH", path, {"spec": {"holderIdentity": "somebody-else"}})
    assert process.ends(10) == 1
    assert process.says("somebody-else")
    assert installation.holder() == "somebody-else"
    assert not process.says("Traceback")


@pytest.mark.usefixtures("furnished")
def test_an_api_server_that_comes_back_finds_the_operator_at_work(installation: Installation) -> None:
    server, namespace = installation.server, installation.namespace
    ours = f'group="{names.GROUP}"'
    eventually(lambda: not server.watches(ours), "the operators of other tests are gone")
    before = server.watches()
    process = installation.start()
    eventually(installation.holder, "leading")
    kinds = len(watched_kinds(installation.namespace))
    # One that starts against an API server which goes away ends; this one is at work.
    eventually(lambda: server.watches() >= before + kinds, "every kind is watched")
    server.restart()
    server.request("POST", f"{GROUP}/namespaces/{namespace}/agentsandboxes", sandbox())
    eventually(lambda: ready_reason(server, namespace, "agentsandboxes", "coder")[0] == "True", "walls stand")
    assert process.popen.poll() is None
