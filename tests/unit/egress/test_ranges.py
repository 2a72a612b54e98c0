"""Which addresses no sandbox may reach."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandhold.egress import ranges

FORBIDDEN = (
    *("0.0.0.1", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "168.63.129.16", "169.254.169.254"),
    *("172.31.255.255", "192.0.0.192", "192.168.1.1", "198.19.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "fc00::1"),
    *("fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2002:a00:1::1", "3fff::1"),
)
PUBLIC = ("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.32.0.1", "192.0.1.1", "168.63.129.17")
PUBLIC_V6 = ("2001:4860:4860::8888", "2606:4700:4700::1111", "2a00:1450::1", "2003::1")


@pytest.mark.parametrize("address", FORBIDDEN)
def test_what_is_not_public_is_forbidden(address: str) -> None:
    assert ranges.is_forbidden(ip_address(address))


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC_V6])
def test_what_is_public_is_not(address: str) -> None:
    assert not ranges.is_forbidden(ip_address(address))


@given(st.ip_addresses(v=4))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_whatever_python_calls_private_is_forbidden(address: object) -> None:
    found = ip_address(str(address))
    if not found.is_global or found.is_multicast or found.is_reserved:
        assert ranges.is_forbidden(found)


@given(st.ip_addresses(v=6))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_whatever_python_calls_private_is_forbidden_in_version_6_too(address: object) -> None:
    found = ip_address(str(address))
    if not found.is_global or found.is_multicast or found.is_reserved or found.is_link_local:
        assert ranges.is_forbidden(found)


def test_exceptions_lie_within_the_block_that_they_are_exceptions_of() -> None:
    assert all(network.subnet_of(ranges.EVERY_V4) for network in ranges.FORBIDDEN_V4)
    assert all(network.subnet_of(ranges.GLOBAL_V6) for network in ranges.FORBIDDEN_V6)


def test_only_public_addresses_need_a_range_of_their_own() -> None:
    found = ranges.public_addresses(
        ["10.0.0.1", "8.8.8.8", "nonsense", "8.8.8.8", "2001:4860::1", "fe80::1", "1.1.1.1"]
    )
    assert [ranges.single(address) for address in found] == ["1.1.1.1/32", "8.8.8.8/32", "2001:4860::1/128"]
    assert all(ip_network(ranges.single(address)).num_addresses == 1 for address in found)
