"""`down`: ends everything that the cluster put on this machine, and says so when something will not go.

It starts from what the kernel knows (our cgroups, our mounts, our link), not from what a record claims, so it also
ends what a killed `up` left. Kept: the build cache, the logs, and containerd's image store, so that the next `up`
need not import images again.
"""

import shutil
import signal
import time
from pathlib import Path

from testbed import cgroups, containers, kernel_settings, leftovers, network, places, processes, waiting
from testbed.commands import run
from testbed.failure import TestbedError

KEPT = {"logs", "containerd"}
ENDING_SECONDS = 30


def down(bin_dirs: dict[str, Path] | None) -> None:
    """Take the cluster down; `bin_dirs` is None when its parts are not built, and then no image is kept."""
    began = time.monotonic()
    places.state().mkdir(parents=True, exist_ok=True)
    _mark().touch()
    kept = _release_containers(bin_dirs)
    sockets = leftovers.shim_sockets()
    _end_processes()
    _unmount()
    network.remove()
    cgroups.remove()
    kernel_settings.restore()
    _remove_what_lies_elsewhere(sockets)
    _remove_state(keep_images=kept)
    images = "images kept" if kept else "no images kept"
    print(f"down in {time.monotonic() - began:.1f} s ({images})", flush=True)


def was_interrupted() -> bool:
    """Whether a `down` was killed: what it left has holes, and can only be taken down further."""
    return _mark().exists()


def _mark() -> Path:
    return places.state() / "ending"


def _release_containers(bin_dirs: dict[str, Path] | None) -> bool:
    """Stop who would start pods, then empty containerd; returns whether its image store is fit to be kept."""
    for name in ("kubelet", "kube-router", "kube-proxy", "kube-controller-manager", "kube-scheduler"):
        processes.stop(name)
    if bin_dirs is None or not processes.running("containerd"):
        return not _has_containers_on_disk()
    try:
        containers.release_all(bin_dirs)
    except TestbedError as error:
        print(f"the image store is not kept: {error}", flush=True)
        return False
    processes.stop("containerd")
    return True


def _has_containers_on_disk() -> bool:
    """Whether a containerd that is not running may still know containers: then its store is not clean."""
    return (places.state() / "containerd" / "state").exists()


def _end_processes() -> None:
    """Kill every process in our cgroups until there is none: one that is ending may still have started another."""

    def none_is_left() -> bool:
        left = cgroups.all_processes()
        processes.send(left, signal.SIGKILL)
        return not left

    waiting.until("all processes in the cluster's cgroups end", none_is_left, seconds=ENDING_SECONDS)


def _unmount() -> None:
    """Unmount all of ours, newest first; lazily, because the last reader of a mount may be somebody's shell."""
    for target in leftovers.mounts():
        run(["umount", "--lazy", target])


def _remove_what_lies_elsewhere(sockets: list[Path]) -> None:
    """Remove our files at places that others fixed, and those places when nothing of anybody is left in them."""
    ours = (*sockets, *leftovers.cni_results(), *leftovers.log_links(), *leftovers.device_plugin_socket())
    for leftover in ours:
        leftover.unlink(missing_ok=True)
    for place in leftovers.fixed_places():
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _remove_state(*, keep_images: bool) -> None:
    for entry in places.state().iterdir():
        if entry.name not in KEPT and entry != _mark():
            _remove(entry)
    for entry in (places.state() / "containerd").glob("*"):
        if not (keep_images and entry.name == "root"):
            _remove(entry)
    _mark().unlink()


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
