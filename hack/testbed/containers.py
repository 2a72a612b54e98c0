"""What we ask containerd for: importing images, and letting go of every container before it ends for good."""

from pathlib import Path

from testbed import cgroups, images, places, processes, waiting
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
    # --local says one line an image when it is unpacked and ready; the default shows a progress bar.
    said = _ctr(bin_dirs, "images", "import", "--local", str(archive.absolute()), timeout=IMPORT_SECONDS)
    return [line.split()[1] for line in said.splitlines() if line.startswith("unpacking ")]


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
