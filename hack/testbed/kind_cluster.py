"""`hack/cluster` on kind: one node in a container, where a container engine answers.

UNVERIFIED: written for machines with docker or podman, and never run on one. The native cluster is what every figure
and every test of this project was seen on. What differs is said in docs/contributing/cluster.md.

kind's own network plugin enforces NetworkPolicies (kind 0.24 and newer). gVisor and the S3 server are those that the
native cluster builds, put into the node; the S3 server keeps its address, to which this machine gets a route.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import build, choice, components, objects, packages, places, s3, waiting
from testbed.commands import run
from testbed.failure import TestbedError

NAME = "sandhold"
NODE = f"{NAME}-control-plane"
PARTS = ("kube", "helm", "gvisor", "versitygw")
CREATE_SECONDS = 600
S3_SECONDS = 30
WARNING = (
    "hack/cluster: this machine has a container engine, so the cluster is one of kind. UNVERIFIED: this way was never "
    "run by its authors. SANDHOLD_CLUSTER=native brings up the one that was."
)


def configuration(bin_dirs: Mapping[str, Path]) -> dict[str, Any]:
    """The cluster as kind reads it (JSON is YAML): the ranges of the native one, its pids limit, its runtimes."""
    programs = [bin_dirs["gvisor"] / "runsc", bin_dirs["gvisor"] / "containerd-shim-runsc-v1"]
    programs.append(bin_dirs["versitygw"] / "versitygw")
    mounts = [
        {"hostPath": str(program), "containerPath": f"/usr/local/bin/{program.name}", "readOnly": True}
        for program in programs
    ]
    runtimes = 'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc'
    kubelet = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "podPidsLimit": 512}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": NAME,
        "networking": {"podSubnet": places.POD_RANGE, "serviceSubnet": places.SERVICE_RANGE},
        "kubeadmConfigPatches": [json.dumps(kubelet)],
        "containerdConfigPatches": [f"[{runtimes}]\n  runtime_type = 'io.containerd.runsc.v1'\n"],
        "nodes": [{"role": "control-plane", "extraMounts": mounts}],
    }


class KindCluster:
    """The verbs of `hack/cluster` that make sense here."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._environment = {"KIND_EXPERIMENTAL_PROVIDER": engine} if engine != "docker" else {}

    def build(self) -> dict[str, Path]:
        """Build what goes into the node, and kubectl and helm."""
        found = build.build_all([c for c in components.COMPONENTS if c.name in PARTS], places.cache())
        shown = places.cache() / "bin"
        shown.mkdir(parents=True, exist_ok=True)
        for name, component in (("kubectl", "kube"), ("helm", "helm")):
            (shown / name).unlink(missing_ok=True)
            (shown / name).symlink_to(found[component] / name)
        return found

    def up(self) -> None:
        """Bring the cluster up, or what of it is missing."""
        packages.require_root()
        bin_dirs = self.build()
        places.state().mkdir(parents=True, exist_ok=True)
        choice.marker().write_text(self._engine)
        if NAME not in self._kind("get", "clusters").split():
            file = places.state() / "kind.yaml"
            file.write_text(json.dumps(configuration(bin_dirs), indent=2))
            kubeconfig = str(places.kubeconfig())
            self._kind("create", "cluster", "--config", str(file), "--kubeconfig", kubeconfig, "--wait", "120s")
        places.kubeconfig().write_text(self._kind("get", "kubeconfig", "--name", NAME))
        self._serve_s3()
        self._apply_runtime_classes()
        print(f"{WARNING}\nup; KUBECONFIG={places.kubeconfig()}", flush=True)

    def down(self) -> None:
        """End the cluster, and take back the route."""
        packages.require_root()
        self._kind("delete", "cluster", "--name", NAME)
        if shutil.which("ip"):
            routes = run(["ip", "route", "show", f"{places.NODE_ADDRESS}/32"])
            if routes.strip():
                run(["ip", "route", "del", f"{places.NODE_ADDRESS}/32"])
        for left in (places.kubeconfig(), places.state() / "kind.yaml", choice.marker()):
            left.unlink(missing_ok=True)

    def is_up(self) -> bool:
        """Whether the API server answers."""
        kubectl = [str(places.cache() / "bin" / "kubectl"), "--kubeconfig", str(places.kubeconfig())]
        try:
            return "Ready" in run([*kubectl, "get", "nodes", "--no-headers", "--request-timeout=5s"], timeout=15)
        except TestbedError:
            return False

    def load(self, archives: Sequence[Path]) -> None:
        """Import image archives into the node."""
        for archive in archives:
            self._kind("load", "image-archive", str(archive), "--name", NAME)
            print(archive)

    def _serve_s3(self) -> None:
        """The S3 server in the node, at the address that the native cluster has it at; this machine gets a route."""
        node = json.loads(run([self._engine, "inspect", NODE]))[0]["NetworkSettings"]["Networks"]
        address = next(iter(node.values()))["IPAddress"]
        inside = [self._engine, "exec", NODE]
        run([*inside, "ip", "address", "replace", f"{places.NODE_ADDRESS}/32", "dev", "lo"])
        run(["ip", "route", "replace", f"{places.NODE_ADDRESS}/32", "via", address])
        if not s3.ready():
            run([*inside, "mkdir", "-p", "/var/lib/sandhold-s3"])
            keys = ("-e", f"ROOT_ACCESS_KEY={places.S3_ACCESS_KEY}", "-e", f"ROOT_SECRET_KEY={places.S3_SECRET_KEY}")
            server = ("versitygw", "--port", places.S3_URL.removeprefix("http://"), "--region", places.S3_REGION)
            run([self._engine, "exec", "--detach", *keys, NODE, *server, "--quiet", "posix", "/var/lib/sandhold-s3"])
            waiting.until("the S3 server serves", s3.ready, seconds=S3_SECONDS)
        s3.ensure_bucket()

    def _apply_runtime_classes(self) -> None:
        found = [document for document in objects.all_objects().values() if document["kind"] == "RuntimeClass"]
        kubectl = [str(places.cache() / "bin" / "kubectl"), "--kubeconfig", str(places.kubeconfig())]
        listed = {"apiVersion": "v1", "kind": "List", "items": found}
        run([*kubectl, "apply", "-f", "-"], stdin=json.dumps(listed))

    def _kind(self, *arguments: str) -> str:
        environment = [f"{key}={value}" for key, value in self._environment.items()]
        return run(["env", *environment, "kind", *arguments], timeout=CREATE_SECONDS)
