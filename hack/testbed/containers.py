"""What we ask containerd for: importing images, and letting go of every container before it ends for good."""

import json
import shutil
from pathlib import Path

from testbed import cgroups, images, network, places, processes, waiting
from testbed.commands import run
from testbed.failure import TestbedError

IMPORT_SECONDS = 300
ASK_SECONDS = 20


def _ctr(bin_dirs: dict[str, Path], *arguments: str, timeout: float = ASK_SECONDS) -> str:
    socket = str(places.containerd_socket())
    return run([str(bin_dirs["containerd"] / "ctr"), "-a", socket, "-n", "k8s.io", *arguments], timeout=timeout)


def load(bin_dirs: dict[str, Path], archive: Path) -> list[str]:
    """Import an OCI or docker archive for the kubelet to use; returns the names of its images."""
    if not archive.is_file():
        raise TestbedError(f"there is no image archive {archive}")
    # --local: the transfer service, the default, does not give images the labels that the kubelet's view needs.
    said = _ctr(bin_dirs, "images", "import", "--local", str(archive.absolute()), timeout=IMPORT_SECONDS)
    return [line.split()[0] for line in said.splitlines() if line.strip()]


def ensure_own_images(bin_dirs: dict[str, Path]) -> None:
    """Import the pause and DNS images unless they are there."""
    present = set(_ctr(bin_dirs, "images", "ls", "-q").split())
    for reference, program in (
        (images.PAUSE, bin_dirs["pause"] / "pause"),
        (images.COREDNS, bin_dirs["coredns"] / "coredns"),
    ):
        if reference in present:
            continue
        target = places.state() / "images" / f"{program.name}.tar"
        target.parent.mkdir(exist_ok=True)
        images.archive(reference, program, target)
        load(bin_dirs, target)
        target.unlink()


def release_all(bin_dirs: dict[str, Path]) -> None:
    """End all pods' processes and make containerd forget its containers, so that its image store can be kept."""
    processes.kill_all("the pods' processes end", cgroups.pod_processes())
    # containerd removes the tasks itself when it has seen their processes end; removing them for it would be a race.
    waiting.until(
        "containerd has seen its tasks end", lambda: not _ctr(bin_dirs, "tasks", "ls", "-q").split(), seconds=10
    )
    containers = _ctr(bin_dirs, "containers", "ls", "-q").split()
    if containers:
        _ctr(bin_dirs, "containers", "rm", *containers)


def forget_images() -> None:
    """Remove the image store itself: what cannot be emptied cleanly is not kept."""
    shutil.rmtree(places.state() / "containerd" / "root", ignore_errors=False)


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


def mounts() -> list[str]:
    """Mount points of ours, the newest first: the order in which they can be unmounted."""
    own = f"{places.state()}/"
    return [target for target in reversed(network.mount_targets()) if target.startswith(own)]
