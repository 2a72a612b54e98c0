"""What the cluster's parts put at places outside the state directory, or leave mounted: found by what is in it.

The rule of this module is "ours only": another containerd or kubelet on this machine uses the same fixed places.
"""

import json
from pathlib import Path

from testbed import health, network, places


def shim_sockets() -> list[Path]:
    """Sockets outside the state directory: gVisor's shim knows only the usual place, a killed one leaves its own there.

    Each shim's bundle names its socket, so those of another containerd on this machine are not touched.
    """
    found = []
    bundles = places.state() / "containerd" / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
    for bundle in bundles.glob("*"):
        for name in ("address", "bootstrap.json"):
            try:
                said = (bundle / name).read_text()
            except FileNotFoundError:
                continue
            address = json.loads(said).get("address", "") if said.startswith("{") else said
            if address.startswith("unix:///run/containerd/"):
                found.append(Path(address.removeprefix("unix://").strip()))
    return found


def cni_results() -> list[Path]:
    """What the CNI library remembers, at a place that cannot be configured, of our pods' attachments."""
    results = Path("/var/lib/cni/results")
    ours = list(results.glob("sandhold-*-eth0"))
    pods = [path.name.removeprefix("sandhold-").removesuffix("-eth0") for path in ours]
    return ours + [results / f"cni-loopback-{pod}-lo" for pod in pods]


def log_links() -> list[Path]:
    """The kubelet's links to container logs, also at a fixed place, that lead into our state directory."""
    own = str(places.state())
    return [
        p for p in Path("/var/log/containers").glob("*.log") if p.is_symlink() and str(p.readlink()).startswith(own)
    ]


def device_plugin_socket() -> list[Path]:
    """The kubelet's socket for device plugins, at a fixed place; one that answers is another kubelet's."""
    path = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
    return [path] if path.exists() and not health.listens(str(path))() else []


def fixed_places() -> list[Path]:
    """Directories that were made for the things above; they go when they are empty."""
    return [
        *(Path("/run/containerd/s"), Path("/run/containerd")),
        *(Path("/var/lib/cni/results"), Path("/var/lib/cni/cache"), Path("/var/lib/cni")),
        *(Path("/var/lib/kubelet/device-plugins"), Path("/var/lib/kubelet"), Path("/var/log/containers")),
        Path("/run/netns"),
    ]


def mounts() -> list[str]:
    """Mount points of ours, the newest first: the order in which they can be unmounted."""
    own = f"{places.state()}/"
    return [target for target in reversed(network.mount_targets()) if target.startswith(own)]
