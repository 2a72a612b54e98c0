"""The cluster's own network namespace, and the one link by which the host reaches it.

There is no default route inside, so nothing in it can reach the outside; and the host has routes for the pod and
service ranges, without which a request to a pod's address would leave by the machine's default route.
"""

from pathlib import Path

from testbed import places
from testbed.commands import run
from testbed.failure import TestbedError

_SYSCTLS = {"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "0"}
_HOST_ROUTES = (places.POD_RANGE, places.SERVICE_RANGE)


def inside(*argv: str) -> list[str]:
    """The command line that runs a program in the cluster's network."""
    return ["nsenter", f"--net={places.NETNS_FILE}", "--", *argv]


def exists() -> bool:
    """Whether the namespace is there: an empty file without a mount is what a killed run or a reboot leaves."""
    return is_mounted(places.NETNS_FILE)


def is_mounted(path: Path) -> bool:
    """Whether something is mounted at exactly this path."""
    return any(target == str(path) for target in mount_targets())


def mount_targets() -> list[str]:
    """All mount points of this machine in mounting order, spaces and all."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split(" ")[4].encode().decode("unicode_escape") for line in lines]


def create() -> None:
    """Make the namespace, the link, the addresses and the routes: each only when it is not there already."""
    if not exists():
        places.NETNS_FILE.parent.mkdir(exist_ok=True)
        places.NETNS_FILE.touch()
        # Not `ip netns add`: that leaves a shared mount of /run/netns on itself behind for good.
        run(["unshare", f"--net={places.NETNS_FILE}", "true"])
    if not _link_is_whole():
        _remove_link()
        _create_link()
    run(["ip", "link", "set", places.HOST_LINK, "up"])
    run(["ip", "address", "replace", f"{places.HOST_ADDRESS}/30", "dev", places.HOST_LINK])
    for destination in _HOST_ROUTES:
        run(["ip", "route", "replace", destination, "via", places.NODE_ADDRESS, "dev", places.HOST_LINK])


def _link_is_whole() -> bool:
    if not (Path("/sys/class/net") / places.HOST_LINK).exists():
        return False
    try:
        shown = run(inside("ip", "-o", "address", "show", "dev", places.NODE_LINK))
    except TestbedError:
        return False  # the other end is in a namespace that is no more
    return places.NODE_ADDRESS in shown


def _create_link() -> None:
    run([
        *("ip", "link", "add", places.HOST_LINK, "type", "veth"),
        *("peer", "name", places.NODE_LINK, "netns", places.NETNS),
    ])  # fmt: skip
    batch = (
        "link set lo up\n"
        f"address replace {places.METADATA_ADDRESS}/32 dev lo\n"
        f"link set {places.NODE_LINK} up\n"
        f"address replace {places.NODE_ADDRESS}/30 dev {places.NODE_LINK}\n"
    )
    run(inside("ip", "-batch", "-"), stdin=batch)
    for key, value in _SYSCTLS.items():
        run(inside("sh", "-c", 'echo "$1" >"/proc/sys/$0"', key, value))


def _remove_link() -> None:
    if (Path("/sys/class/net") / places.HOST_LINK).exists():
        run(["ip", "link", "delete", places.HOST_LINK])


def remove() -> None:
    """Remove the link (its routes go with it) and the namespace (its links and rules go with it)."""
    _remove_link()
    while exists():
        run(["umount", str(places.NETNS_FILE)])
    places.NETNS_FILE.unlink(missing_ok=True)
