"""`up`: from whatever is there to a cluster that serves, each step doing only what is still to be done.

    packages, builds ─► state, certificates ─► network, cgroups ─► daemons ─► images, objects ─► node Ready, DNS Ready

There is no separate repair: a run that was killed at any point, or a daemon that died, is met by the same steps.
"""

import shutil
import time
from pathlib import Path

from testbed import (
    api,
    build,
    cgroups,
    components,
    configuration,
    containers,
    daemons,
    kernel_settings,
    network,
    objects,
    packages,
    pki,
    places,
    processes,
    s3,
    taking_down,
    waiting,
)
from testbed.failure import TestbedError

SERVE_SECONDS = 60
NODE_SECONDS = 90
DNS_SECONDS = 90


def up() -> None:
    """Bring the cluster up, or heal it, or find it well."""
    packages.require_root()
    packages.ensure_installed()
    bin_dirs = build_parts()
    began = time.monotonic()
    if taking_down.was_interrupted():
        taking_down.down(bin_dirs)
    _lay_out(bin_dirs)
    network.create()
    table = daemons.table(bin_dirs)
    cgroups.create(list(table))
    started = [name for name in ("log-trimmer", "metadata", "s3", "etcd", "containerd") if ensure(table[name])]
    started += [name for name in ("kube-apiserver",) if ensure(table[name])]
    await_serving(table["containerd"])
    containers.ensure_own_images(bin_dirs)
    await_serving(table["kube-apiserver"])
    started += [name for name in table if ensure(table[name])]
    for path, document in objects.all_objects().items():
        api.apply(path, document)
    for daemon in table.values():
        await_serving(daemon)
    s3.ensure_bucket()
    waiting.until("the node is Ready", _node_is_ready, seconds=NODE_SECONDS)
    waiting.until("the cluster's DNS is Ready", _dns_is_ready, seconds=DNS_SECONDS)
    what = f"started {', '.join(started)}" if started else "all was running"
    print(f"up in {time.monotonic() - began:.1f} s ({what}); KUBECONFIG={places.kubeconfig()}", flush=True)


def build_parts() -> dict[str, Path]:
    """Build what is missing and point the cache's `bin` at the programs that people use."""
    if not shutil.which("go") and not all(c.directory(places.cache()).is_dir() for c in components.COMPONENTS):
        raise TestbedError("the cluster's parts are built from source: install Go 1.26 or newer")
    bin_dirs = build.build_all(components.COMPONENTS, places.cache())
    shown = places.cache() / "bin"
    shown.mkdir(exist_ok=True)
    for name, component in (("kubectl", "kube"), ("helm", "helm"), ("ctr", "containerd")):
        partial = shown / f".{name}.partial"
        partial.unlink(missing_ok=True)
        partial.symlink_to(bin_dirs[component] / name)
        partial.rename(shown / name)
    return bin_dirs


def _lay_out(bin_dirs: dict[str, Path]) -> None:
    """Directories, certificates, configuration files; and what must be remembered before anything runs."""
    for name in ("run", "logs", "containerd", "kubelet"):
        (places.state() / name).mkdir(parents=True, exist_ok=True)
    places.state().chmod(0o755)
    kernel_settings.remember()
    pki.create()
    configuration.write_all(bin_dirs)


def ensure(daemon: daemons.Daemon) -> bool:
    """Have this daemon run, as it is configured now; returns whether it had to be started."""
    known = processes.running(daemon.name)
    digest = daemon.digest()
    if known and known.digest == digest:
        return False
    if known:
        processes.stop(daemon.name)
    waiting.until(f"what {daemon.name} needs is there", daemon.may_start, seconds=SERVE_SECONDS)
    processes.kill_all(f"left-over {daemon.name} ends", processes.strays(daemon.name, daemon.argv[0]))
    processes.spawn(daemon.name, daemon.argv, daemon.environment(), digest)
    return True


def await_serving(daemon: daemons.Daemon) -> None:
    """Wait until a daemon serves; one that ends meanwhile is an error at once, with the end of its log."""

    def serves() -> bool:
        known = processes.running(daemon.name)
        if known is None or not processes.alive(known.pid):
            log = processes.log_file(daemon.name)
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise TestbedError(f"{daemon.name} ended by itself, see {log}\n{tail}")
        return daemon.serves()

    waiting.until(f"{daemon.name} serves", serves, seconds=SERVE_SECONDS)


def _node_is_ready() -> bool:
    return (api.node_conditions() or {}).get("Ready") == "True"


def _dns_is_ready() -> bool:
    status = api.call("GET", objects.DEPLOYMENT)["status"]
    return bool(status.get("readyReplicas"))
