"""The cluster's cgroups: one subtree, in every hierarchy, that holds every process the cluster ever starts.

Daemons are put into `sandhold/daemons/<name>` before they run their first instruction and pods live under
`sandhold/kubepods`, so "every process of ours" is a question that the kernel answers, also after a killed run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from testbed.places import CGROUP

ROOT = Path("/sys/fs/cgroup")
DAEMONS = "daemons"


def hierarchies() -> list[Path]:
    """The mounted hierarchies: the single one of cgroup v2, or all those of v1 (links to them left out)."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return sorted(p for p in ROOT.iterdir() if p.is_dir() and not p.is_symlink() and (p / "cgroup.procs").exists())


def tracking() -> Path:
    """The hierarchy that says which processes are ours; in v1 any one will do, and `pids` is always there."""
    return ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "pids"


def create(daemons: list[str]) -> None:
    """Make our subtree in every hierarchy (the kubelet refuses a root that one of them lacks) and a group a daemon."""
    for hierarchy in hierarchies():
        (hierarchy / CGROUP).mkdir(exist_ok=True)
    if tracking() == ROOT:
        for parent in (ROOT, ROOT / CGROUP):
            offered = (parent / "cgroup.controllers").read_text().split()
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in offered))
    for name in daemons:
        daemon_group(name).mkdir(parents=True, exist_ok=True)


def daemon_group(name: str) -> Path:
    """The group of one daemon; a containerd's shims stay in its group, pods' processes have their own."""
    return tracking() / CGROUP / DAEMONS / name


def processes(group: Path) -> list[int]:
    """The processes in this group and below it, now."""
    found: list[int] = []
    for directory in _subtree(group):
        try:
            found += [int(line) for line in (directory / "cgroup.procs").read_text().split()]
        except (FileNotFoundError, OSError) as error:
            if isinstance(error, FileNotFoundError) or error.errno == _GONE:
                continue  # removed between the listing and the reading: nothing is in it
            raise
    return found


def all_processes() -> list[int]:
    """Every process of the cluster, in whatever hierarchy it can be seen."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        found.update(processes(hierarchy / CGROUP))
    return sorted(found - {0, os.getpid()})


def pod_processes() -> list[int]:
    """The processes of pods alone."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        found.update(processes(hierarchy / CGROUP / "kubepods"))
    return sorted(found - {0, os.getpid()})


def remove() -> None:
    """Remove our subtree everywhere; all of it must be empty by now."""
    for hierarchy in hierarchies():
        for directory in reversed(list(_subtree(hierarchy / CGROUP))):
            directory.rmdir()


def exists() -> bool:
    """Whether any hierarchy has our subtree."""
    return any((hierarchy / CGROUP).is_dir() for hierarchy in hierarchies())


_GONE = 19  # ENODEV: how a cgroup that was just removed answers a read


def _subtree(group: Path) -> Iterator[Path]:
    """The group and all groups below it, parents first."""
    for directory, _, _ in os.walk(group):
        yield Path(directory)
