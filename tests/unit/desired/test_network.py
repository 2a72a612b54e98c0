"""The NetworkPolicy: what it lets through, judged the way a plugin would."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandhold.desired.network import network_policy, walls_stand
from sandhold.desired.world import ABSENT, Present, Unknown
from sandhold.egress import ranges
from testkit import worlds

MOVER = {"app.kubernetes.io/name": "sandhold", "app.kubernetes.io/component": "mover"}


def built(**installation: Any) -> dict[str, Any]:
    policy = network_policy(worlds.an_installation(**installation), worlds.a_sandbox())
    assert isinstance(policy, dict)
    return policy


def lets_out(policy: Mapping[str, Any], *, to: str, labels: Mapping[str, str] | None = None, port: int = 443) -> bool:
    """Whether a plugin would let a connection to an address (or to a pod with labels, in its namespace) pass."""
    for rule in policy["spec"]["egress"]:
        ports = [each["port"] for each in rule.get("ports", ())]
        if ports and port not in ports:
            continue
        for peer in rule["to"]:
            if "ipBlock" in peer and labels is None and _inside(peer["ipBlock"], to):
                return True
            if "podSelector" in peer and labels is not None:
                wanted = {**peer["podSelector"]["matchLabels"], **peer["namespaceSelector"]["matchLabels"]}
                if wanted.items() <= {**labels, "kubernetes.io/metadata.name": to}.items():
                    return True
    return False


def _inside(block: Mapping[str, Any], address: str) -> bool:
    found = ip_address(address)
    nets = [ip_network(block["cidr"]), *map(ip_network, block["except"])]
    if nets[0].version != found.version:
        return False
    return found in nets[0] and not any(found in net for net in nets[1:])


def test_it_selects_the_pods_of_this_very_sandbox() -> None:
    selector = built()["spec"]["podSelector"]["matchLabels"]
    assert selector.items() <= worlds.a_pod()["metadata"]["labels"].items()
    successor = network_policy(worlds.an_installation(), worlds.a_sandbox(uid="another-uid"))
    assert isinstance(successor, dict)
    assert not successor["spec"]["podSelector"]["matchLabels"].items() <= worlds.a_pod()["metadata"]["labels"].items()


def test_the_movers_keeper_port_is_open_and_its_canary_is_not() -> None:
    policy = built()
    assert lets_out(policy, to="sandhold-system", labels=MOVER, port=7443)
    assert not lets_out(policy, to="sandhold-system", labels=MOVER, port=7445)
    assert not lets_out(policy, to="sandhold-system", labels=MOVER, port=7444)
    assert not lets_out(policy, to="elsewhere", labels=MOVER, port=7443)
    assert not lets_out(policy, to="sandhold-system", labels={"app": "mover"}, port=7443)


def test_cluster_dns_is_open_over_both_protocols_and_nothing_else_there_is() -> None:
    policy = built()
    assert lets_out(policy, to="kube-system", labels={"k8s-app": "kube-dns"}, port=53)
    assert not lets_out(policy, to="kube-system", labels={"k8s-app": "kube-dns"}, port=9153)
    protocols = {
        each["protocol"] for rule in policy["spec"]["egress"] for each in rule.get("ports", ()) if each["port"] == 53
    }
    assert protocols == {"UDP", "TCP"}


@given(st.ip_addresses())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_an_address_is_open_exactly_when_it_is_not_forbidden(address: object) -> None:
    assert lets_out(built(), to=str(address)) is not ranges.is_forbidden(ip_address(str(address)))


def test_a_public_api_server_and_public_nodes_are_walled_off() -> None:
    policy = built(
        api_server=Present((("10.96.0.1", 443), ("34.1.2.3", 443), ("2a00::5", 443))),
        node_addresses=Present(("34.9.9.9", "10.0.0.4")),
    )
    for address in ("34.1.2.3", "2a00::5", "34.9.9.9"):
        assert not lets_out(policy, to=address)
    assert lets_out(policy, to="34.1.2.4")


def test_ingress_is_the_declared_ports_and_without_any_nothing() -> None:
    assert built()["spec"]["ingress"] == []
    policy = network_policy(
        worlds.an_installation(), worlds.a_sandbox({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]})
    )
    assert isinstance(policy, dict)
    assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "UDP", "port": 53}]}]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize(
    "facts", [{"api_server": Unknown("no answer")}, {"api_server": ABSENT}, {"node_addresses": Unknown("no answer")}]
)
def test_what_cannot_be_walled_off_is_not_guessed(facts: dict[str, Any]) -> None:
    assert isinstance(network_policy(worlds.an_installation(**facts), worlds.a_sandbox()), Unknown)


def test_walls_that_are_going_or_have_a_hole_do_not_stand() -> None:
    wanted = built()
    stored = worlds.with_server_metadata(wanted, "uid")
    assert walls_stand(stored, wanted)
    assert walls_stand(
        {**stored, "spec": {key: part for key, part in stored["spec"].items() if key != "ingress"}}, wanted
    )
    assert not walls_stand({**stored, "metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, wanted)
    for hole in ({"egress": [{}]}, {"policyTypes": ["Ingress"]}, {"ingress": [{}]}, {"podSelector": {}}):
        assert not walls_stand({**stored, "spec": {**stored["spec"], **hole}}, wanted)
