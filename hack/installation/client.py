"""A small client of the test cluster: HTTP for looking often, kubectl where people would type it.

Everything has a bound. Polling by HTTP and not by kubectl, because a process for each look would be most of the load on
a small machine and would spoil what is measured.
"""

import base64
import json
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from testbed import places
from testbed.failure import TestbedError

Object = dict[str, Any]
_T = TypeVar("_T")

CALL_SECONDS = 15
KUBECTL_SECONDS = 60
_API_ROOTS = {
    "AgentSandbox": ("/apis/sandhold.dev/v1alpha1", "agentsandboxes"),
    "SandboxSession": ("/apis/sandhold.dev/v1alpha1", "sandboxsessions"),
    "SandboxSnapshot": ("/apis/sandhold.dev/v1alpha1", "sandboxsnapshots"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
    "Namespace": ("/api/v1", "namespaces"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Pod": ("/api/v1", "pods"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
}


class CallError(TestbedError):
    """An API call that failed, with the server's own words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def until(claim: str, look: Callable[[], _T | None], *, seconds: float, every: float = 0.1) -> _T:
    """Look until there is something to return; the claim is what the error says never came true."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TestbedError(f"gave up after {seconds:.0f} s: {claim}")
        time.sleep(every)


class Cluster:
    """The test cluster, seen as its administrator."""

    def __init__(self) -> None:
        if not places.kubeconfig().exists():
            raise TestbedError("the cluster is not up: run `hack/cluster up`")
        self._http = _http(places.kubeconfig())

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def call(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> Object:
        """One request; `CallError` for anything but success."""
        content = None if body is None else json.dumps(body)
        try:
            answer = self._http.request(method, path, content=content, headers={"Content-Type": content_type})
        except httpx.HTTPError as error:
            raise TestbedError(f"{method} {path}: {type(error).__name__} {error}") from error
        parsed: Object = answer.json()
        if answer.is_error:
            raise CallError(answer.status_code, str(parsed.get("message", parsed)))
        return parsed

    def stream(self, where: str, query: dict[str, str], seconds: float) -> AbstractContextManager[httpx.Response]:
        """A watch, to be read line by line."""
        return self._http.stream("GET", where, params=query, timeout=seconds)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object, or None when it is certainly absent."""
        try:
            return self.call("GET", path(kind, namespace, name))
        except CallError as error:
            if error.code == 404:
                return None
            raise

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        """All objects of a kind in a namespace."""
        query = f"?labelSelector={selector}" if selector else ""
        items: list[Object] = self.call("GET", path(kind, namespace) + query)["items"]
        return items

    def create(self, document: Object) -> Object:
        """POST an object."""
        return self.call("POST", path(document["kind"], document["metadata"].get("namespace", "")), document)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into an object."""
        return self.call("PATCH", path(kind, namespace, name), change, "application/merge-patch+json")

    def delete(self, kind: str, namespace: str, name: str, **options: Any) -> None:
        """Delete an object; one that is absent already is fine."""
        try:
            self.call("DELETE", path(kind, namespace, name), {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except CallError as error:
            if error.code != 404:
                raise

    def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        """Set a Deployment's replicas and wait until its pods are what that says, none left over."""
        self.patch("Deployment", namespace, deployment, {"spec": {"replicas": replicas}})
        until(f"{deployment} has {replicas} pods", lambda: self._is_scaled(namespace, deployment, replicas), seconds=90)

    def _is_scaled(self, namespace: str, deployment: str, replicas: int) -> bool:
        found = self.get("Deployment", namespace, deployment)
        if found is None:
            raise TestbedError(f"there is no Deployment {namespace}/{deployment}")
        labels = found["spec"]["selector"]["matchLabels"]
        pods = self.list("Pod", namespace, ",".join(f"{key}={value}" for key, value in labels.items()))
        ready: int = found["status"].get("readyReplicas", 0)
        observed: int = found["status"].get("observedGeneration", 0)
        current: int = found["metadata"]["generation"]
        return len(pods) == replicas == ready and observed == current

    def apply(self, *documents: Object) -> str:
        """`kubectl apply` of these documents."""
        return self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = KUBECTL_SECONDS) -> str:
        """What people would type; its output, or an error with its words."""
        done = self.try_kubectl(*arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            words = " ".join(arguments)[:200]
            raise TestbedError(f"kubectl {words} failed ({done.returncode}): {(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = KUBECTL_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """The same where a failure is an answer too."""
        program = [str(places.cache() / "bin" / "kubectl"), f"--kubeconfig={places.kubeconfig()}"]
        # A wait and an exec last as long as they must: they are bounded by our own timeout alone.
        lasting = arguments[:1] in (("wait",), ("exec",), ("logs",))
        bound = [] if lasting else [f"--request-timeout={CALL_SECONDS}s"]
        try:
            return subprocess.run(
                [*program, *bound, *arguments],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TestbedError(f"kubectl {' '.join(arguments)[:200]} did not end within {timeout:.0f} s") from error

    def execute(self, namespace: str, pod: str, *command: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run a command in the agent's container and return what it printed."""
        interactive = [] if stdin is None else ["-i"]
        words = ["exec", *interactive, "-n", namespace, pod, "-c", "agent", "--", *command]
        return self.kubectl(*words, stdin=stdin, timeout=timeout)


def path(kind: str, namespace: str = "", name: str = "") -> str:
    """Where the API serves this."""
    root, plural = _API_ROOTS[kind]
    scope = f"/namespaces/{namespace}" if namespace and kind != "Namespace" else ""
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


def condition(found: Object | None, kind: str) -> Object:
    """A condition of an object's status; an empty one when it has none of this type."""
    conditions: Iterable[Object] = ((found or {}).get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind), {"type": kind, "status": "", "reason": "", "message": ""})


def _http(kubeconfig: Path) -> httpx.Client:
    """A client with the certificates of the kubeconfig's first cluster and user."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for owner, field in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
            if f"{field}-data" in owner:
                files[field] = Path(folder) / field
                files[field].write_bytes(base64.b64decode(owner[f"{field}-data"]))
            else:
                files[field] = kubeconfig.parent / owner[field]
        context = ssl.create_default_context(cafile=str(files["certificate-authority"]))
        context.load_cert_chain(files["client-certificate"], files["client-key"])
    return httpx.Client(base_url=cluster["server"], verify=context, timeout=CALL_SECONDS, trust_env=False)
