"""What the e2e tests do to the real cluster, in the words of the product: sandboxes, sessions, stops, damage, faults.

Waiting is always for a condition of an object, with a bound, and what was seen last stands in the error.
"""

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installation import bucket
from installation.client import Cluster, Object, condition, until
from testbed import places
from testbed.failure import TestbedError

REPOSITORY = Path(__file__).resolve().parents[2]
WALKER = (REPOSITORY / "hack" / "installation" / "walker.py").read_text()
SYSTEM = "sandhold-system"
IMAGE = "localhost/sample-agent:dev"
START_SECONDS = 90
STOP_SECONDS = 90
BEGUN_SECONDS = 45
_NEVER_BEGUN = re.compile(
    r"failed \(1\): (?:error|Error from server[^:\n]*): [^\n]*(?:unable to upgrade connection|error dialing backend"
    r"|container not found|failed to load task|failed to create exec)"
)
"""How kubectl says that a command was not begun: so it may be asked for again. What may have begun never is."""


class NeverBegunError(TestbedError):
    """A command in a container that nobody began, within a bound."""


@dataclass(frozen=True)
class Field:
    """A namespace of one test, and everything that the test does there."""

    cluster: Cluster
    namespace: str

    def sandbox(self, name: str, tier: str = "runc", **spec: Any) -> str:
        """Make an AgentSandbox with small limits, and return its name."""
        small = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
        whole = {"image": IMAGE, "tier": tier, "resources": small, "workspace": {"size": "256Mi"}} | spec
        self.cluster.create(self._object("AgentSandbox", name, whole))
        return name

    def session(self, name: str, sandbox: str, **spec: Any) -> "Session":
        """Make a SandboxSession; nothing is waited for."""
        self.cluster.create(self._object("SandboxSession", name, {"sandboxRef": {"name": sandbox}} | spec))
        return Session(self, name)

    def _object(self, kind: str, name: str, spec: Object) -> Object:
        metadata = {"namespace": self.namespace, "name": name}
        return {"apiVersion": "sandhold.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}

    def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return self.cluster.list("Pod", self.namespace)

    def execute(self, pod: str, *command: str, stdin: str | None = None) -> str:
        """Run a command in an agent's container: once, but asked for as often as it takes until somebody begins it."""
        deadline = time.monotonic() + BEGUN_SECONDS
        while True:
            try:
                return self.cluster.execute(self.namespace, pod, *command, stdin=stdin)
            except TestbedError as error:
                if not is_never_begun(str(error)):
                    raise
                if time.monotonic() > deadline:
                    raise NeverBegunError(str(error)) from error
            time.sleep(0.5)

    def events(self, reason: str) -> list[Object]:
        """The Events with a reason."""
        return [event for event in self.cluster.list("Event", self.namespace) if event.get("reason") == reason]


@dataclass(frozen=True)
class Session:
    """A SandboxSession."""

    field: Field
    name: str

    def found(self) -> Object:
        """The object as it is now; it must be there."""
        found = self.field.cluster.get("SandboxSession", self.field.namespace, self.name)
        assert found is not None, f"the session {self.name} is gone"
        return found

    def status(self) -> Object:
        """Its status; empty before the operator saw it."""
        status: Object = self.found().get("status") or {}
        return status

    def condition(self, kind: str) -> Object:
        """One of its conditions."""
        return condition(self.found(), kind)

    def wait(self, claim: str, holds: Callable[[Object], bool], seconds: float) -> Object:
        """Wait until the status is so; the last status stands in the error."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.found()
            if holds(found.get("status") or {}):
                return found
            if time.monotonic() > deadline:
                shown = json.dumps(found.get("status"), indent=1)
                raise TestbedError(f"{self.name}: not within {seconds:.0f} s: {claim}\n{shown}")
            time.sleep(0.1)

    def wait_phase(self, phase: str, seconds: float = START_SECONDS) -> Object:
        """Wait for a phase."""
        return self.wait(f"phase {phase}", lambda status: status.get("phase") == phase, seconds)

    def wait_condition(self, kind: str, reason: str, seconds: float = START_SECONDS) -> Object:
        """Wait until a condition is False for a reason; returns the condition."""

        def holds(status: Object) -> bool:
            found = condition({"status": status}, kind)
            return (found["status"], found["reason"]) == ("False", reason)

        return condition(self.wait(f"{kind} is False: {reason}", holds, seconds), kind)

    def wait_refusal(self, code: str, seconds: float = START_SECONDS) -> Object:
        """Wait until status names a refusal; returns the refusal."""
        found = self.wait(f"refusal {code}", lambda s: (s.get("refusal") or {}).get("code") == code, seconds)
        refusal: Object = found["status"]["refusal"]
        assert refusal["message"], refusal
        assert refusal["action"], refusal
        return refusal

    def pod(self) -> Object:
        """Its pod, which must be there."""
        name = self.status().get("podName")
        assert name, f"{self.name} has no pod: {self.status()}"
        pod = self.field.cluster.get("Pod", self.field.namespace, name)
        assert pod is not None, f"the pod {name} is gone"
        return pod

    def pod_uid(self) -> str:
        """UID of its pod."""
        uid: str = self.pod()["metadata"]["uid"]
        return uid

    def execute(self, *command: str, stdin: str | None = None) -> str:
        """Run a command in the agent's container."""
        return self.field.execute(self.pod()["metadata"]["name"], *command, stdin=stdin)

    def shell(self, script: str) -> str:
        """Run a script in the agent's container, in the workspace."""
        return self.execute("sh", "-euc", script)

    def python(self, script: str, *arguments: str) -> str:
        """Run a Python script in the agent's container."""
        return self.execute("python3", "-", *arguments, stdin=script)

    def walk(self) -> list[Object]:
        """What a walker that is not the keeper sees in the workspace."""
        return [json.loads(line) for line in self.python(WALKER, "/workspace").splitlines()]

    def allocated(self, name: str) -> int:
        """Bytes of disk under a file of the workspace, asked of the node: gVisor does not tell holes from zeros."""
        volumes = places.state() / "kubelet" / "pods" / self.pod_uid() / "volumes" / "kubernetes.io~empty-dir"
        return (volumes / "workspace" / name).stat().st_blocks * 512

    def set_mode(self, mode: str) -> None:
        """Ask for `Running` or `Suspended`."""
        self.field.cluster.patch("SandboxSession", self.field.namespace, self.name, {"spec": {"operatingMode": mode}})

    def suspend(self) -> Object:
        """Stop it in order; returns `status.snapshot`."""
        self.set_mode("Suspended")
        snapshot: Object = self.wait_phase("Suspended", STOP_SECONDS)["status"]["snapshot"]
        return snapshot

    def resume(self) -> None:
        """Start it again and wait until it is Ready."""
        self.set_mode("Running")
        self.wait_phase("Ready")

    def annotate(self, name: str, value: str) -> None:
        """Set an annotation."""
        change = {"metadata": {"annotations": {name: value}}}
        self.field.cluster.patch("SandboxSession", self.field.namespace, self.name, change)

    def delete(self) -> None:
        """Ask for its deletion; nothing is waited for."""
        self.field.cluster.delete("SandboxSession", self.field.namespace, self.name)

    def wait_gone(self, seconds: float = STOP_SECONDS) -> None:
        """Wait until the object is absent."""
        until(f"{self.name} goes", self.is_gone, seconds=seconds)

    def is_gone(self) -> bool:
        """Whether the object is absent."""
        return self.field.cluster.get("SandboxSession", self.field.namespace, self.name) is None


def is_never_begun(said: str) -> bool:
    """Whether the error of an exec says that its command was not begun."""
    return _NEVER_BEGUN.search(said) is not None


def daemon(verb: str, name: str) -> None:
    """`hack/cluster stop|start|restart` one daemon of the cluster."""
    program = [str(REPOSITORY / "hack" / "cluster"), verb, name]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def store_away() -> Iterator[None]:
    """The object store does not answer for a while."""
    daemon("stop", "s3")
    try:
        yield
    finally:
        daemon("start", "s3")


@contextmanager
def scaled_to_zero(cluster: Cluster, deployment: str) -> Iterator[None]:
    """One of our own programs is away for a while."""
    cluster.scale(SYSTEM, deployment, 0)
    try:
        yield
    finally:
        cluster.scale(SYSTEM, deployment, 1)


def restart_programs(cluster: Cluster, *deployments: str) -> None:
    """Some of our own programs end, and when all of them are away they begin anew."""
    for replicas in (0, 1):
        for deployment in deployments:
            cluster.patch("Deployment", SYSTEM, deployment, {"spec": {"replicas": replicas}})
        for deployment in deployments:
            cluster.scale(SYSTEM, deployment, replicas)


def folder_of(key: str) -> str:
    """The prefix of a slot, from the key of one of its manifests."""
    return key.rpartition("/")[0] + "/"


def manifest(key: str) -> tuple[Object, list[Object]]:
    """Header and records of a stored manifest."""
    lines = [json.loads(line) for line in bucket.read(key).splitlines()]
    return lines[0], lines[1:-1]


def layer_keys(key: str) -> list[str]:
    """The full keys of the layers that a manifest names."""
    return [folder_of(key) + layer["key"] for layer in manifest(key)[0]["layers"]]


def sha256(content: bytes) -> str:
    """Digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
