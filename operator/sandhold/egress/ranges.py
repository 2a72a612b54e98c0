"""PURE: the address ranges that no sandbox may reach on its own account, IPv4 and IPv6, in one place.

Every mechanism that walls a sandbox takes its ranges from here. What is private, local to a link, a machine or a
provider, shared behind a carrier's NAT, a metadata service, or a detour into any of these (NAT64, 6to4, Teredo) is
forbidden. Addresses that belong to one cluster, such as a public API server, are added by whoever knows the cluster.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

FORBIDDEN_V4: tuple[IPv4Network, ...] = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network; 0.0.0.0 reaches the machine itself
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; also pod networks and a provider's metadata service
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a provider's host agent: public by number, local by meaning
        "169.254.0.0/16",  # link-local; the metadata services of most providers
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, a provider's metadata service among them
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT relays
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)

GLOBAL_V6 = IPv6Network("2000::/3")
"""The only part of IPv6 that is handed out for use on the internet. Everything outside it is forbidden as a whole:
loopback, mapped and translated IPv4 (`::ffff:0:0/96`, NAT64's `64:ff9b::/96` and `64:ff9b:1::/48`), unique local,
link-local and multicast addresses, and whatever may be defined there later."""

FORBIDDEN_V6: tuple[IPv6Network, ...] = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: any IPv4 address in disguise
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # the old 6bone
        "3fff::/20",  # documentation
    )
)
"""Exceptions within GLOBAL_V6."""

EVERY_V4 = IPv4Network("0.0.0.0/0")


def is_forbidden(address: Address) -> bool:
    """Whether no sandbox may reach an address, whatever cluster it runs in."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in FORBIDDEN_V4)
    if address not in GLOBAL_V6:
        return True
    return any(address in network for network in FORBIDDEN_V6)


def single(address: Address) -> str:
    """An address as a range of one."""
    return str(ip_network(address))


def public_addresses(texts: Iterable[str]) -> tuple[Address, ...]:
    """Those of the addresses that are not forbidden anyway, each once, sorted.

    Names and nonsense are left out: a NetworkPolicy cannot hold them.
    """
    found = {address for text in texts if (address := _parse(text)) is not None and not is_forbidden(address)}
    return tuple(sorted(found, key=lambda address: (address.version, int(address))))


def _parse(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
