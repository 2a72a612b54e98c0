"""What a machine holds that a cluster could leave behind, as plain sets that can be compared.

Other people's shells, compilers and daemons come and go between two looks, so a process only counts when something
ties it to the cluster: its program or arguments, its cgroup, its network. Mounts, links, routes, rules and cgroups are
taken whole, because hardly anybody else makes those and a leak may look like anything.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from testbed import cgroups, network, places
from testbed.commands import run

_RULES = ("iptables-save", "ip6tables-save", "iptables-legacy-save", "ip6tables-legacy-save")


@dataclass(frozen=True)
class Inventory:
    """The six kinds of things, each a set of lines that a person can read."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    rules: frozenset[str]
    cgroups: frozenset[str]

    def difference(self, earlier: "Inventory") -> list[str]:
        """What was not there before and what is no longer there, one line each; empty when the two are the same.

        A cgroup that is gone says nothing: each program of the machine may have one, and takes it along when it ends.
        """
        lines = []
        for field in fields(self):
            now, before = getattr(self, field.name), getattr(earlier, field.name)
            lines += [f"{field.name}: left behind: {line}" for line in sorted(now - before)]
            if field.name != "cgroups":
                lines += [f"{field.name}: gone: {line}" for line in sorted(before - now)]
        return lines


def take() -> Inventory:
    """Look at the machine now."""
    return Inventory(
        processes=_processes(),
        mounts=frozenset(network.mount_targets()),
        links=_links(),
        routes=_routes(),
        rules=_rules(),
        cgroups=_cgroups(),
    )


def _processes() -> frozenset[str]:
    ties = _ties()
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            why = [name for name, tied in ties.items() if tied(entry)]
            if why:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.add(f"{entry.name} {command} ({', '.join(why)})")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return frozenset(found)


def _ties() -> dict[str, Callable[[Path], bool]]:
    """What makes a process the cluster's, as questions about its folder in /proc."""
    own = (f"{places.state()}/", f"{places.cache()}/components/")
    inode = places.NETNS_FILE.stat().st_ino if network.exists() else None

    def program(entry: Path) -> bool:
        return _link(entry / "exe").startswith(own)

    def arguments(entry: Path) -> bool:
        return any(place.encode() in (entry / "cmdline").read_bytes() for place in own)

    def group(entry: Path) -> bool:
        lines = (entry / "cgroup").read_text().splitlines()
        return any(line.split(":", 2)[2].startswith(f"/{places.CGROUP}/") for line in lines)

    def net(entry: Path) -> bool:
        return inode is not None and _link(entry / "ns" / "net") == f"net:[{inode}]"

    return {"program": program, "arguments": arguments, "cgroup": group, "network": net}


def _link(path: Path) -> str:
    """Where a link in /proc leads; kernel threads have none."""
    try:
        return str(path.readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def _links() -> frozenset[str]:
    """The links of this network; /sys would show those of the network in which it was mounted."""
    return frozenset(line.split(":")[1].split("@")[0].strip() for line in run(["ip", "-o", "link"]).splitlines())


def _routes() -> frozenset[str]:
    shown = run(["ip", "-4", "route", "show", "table", "all"]) + run(["ip", "-6", "route", "show", "table", "all"])
    return frozenset(line.strip() for line in shown.splitlines())


def _rules() -> frozenset[str]:
    """All packet filter rules of the host's own network, of both kinds, without counters and comments."""
    lines: set[str] = set()
    for program in _RULES:
        shown = run([program]).splitlines()
        lines.update(f"{program}: {line.split(' [')[0]}" for line in shown if not line.startswith("#"))
    return frozenset(lines)


def _cgroups() -> frozenset[str]:
    """All control groups below the hierarchies' roots."""
    found = set()
    for hierarchy in cgroups.hierarchies():
        for directory, _, _ in os.walk(hierarchy):
            if directory != str(hierarchy):
                found.add(directory)
    return frozenset(found)
