"""The NetworkPolicy of an AgentSandbox: what its pods may reach and who may reach them.

Ingress: the declared ports only. Egress: the movers' keeper port, cluster DNS, and public addresses without every range
of `egress/ranges.py`, the API server and the nodes. The movers' canary port is left out on purpose: that a keeper
cannot reach it proves that the policy bites. Policies name pod ports, since that is what plugins compare (not the
Service's). Whether anything enforces it is not decided here but seen from inside each pod (`evidence.py`).
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

from sandhold import names
from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import ownership
from sandhold.desired.world import Absent, Installation, KubeObject, Present, Unknown
from sandhold.egress import ranges

API_VERSION = "networking.k8s.io/v1"
KIND = "NetworkPolicy"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def network_policy(installation: Installation, sandbox: AgentSandbox) -> dict[str, Any] | Unknown:
    """The policy, or why it cannot be built: an API server whose address nobody knows cannot be walled off."""
    cluster = _cluster_addresses(installation)
    if isinstance(cluster, Unknown):
        return cluster
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": ownership.sandbox_child(installation.id, sandbox),
        "spec": {
            "podSelector": {"matchLabels": ownership.sandbox_selector(installation.id, sandbox)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _ingress(sandbox),
            "egress": [_to_movers(installation.operator_namespace), _to_dns(), *_to_public(cluster)],
        },
    }


def walls_stand(policy: KubeObject, wanted: Mapping[str, Any]) -> bool:
    """Whether the policy that the API server holds is the wanted one, all of it and nothing more, and stays."""
    stands = _as_stored(policy.get("spec") or {}) == _as_stored(wanted["spec"])
    return stands and not ownership.metadata_of(policy).get("deletionTimestamp")


def _as_stored(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The API server leaves empty lists of rules out; `policyTypes` says what that means."""
    return {key: value for key, value in spec.items() if value or key not in ("ingress", "egress")}


def _cluster_addresses(installation: Installation) -> tuple[str, ...] | Unknown:
    match installation.api_server:
        case Present(found):
            api = tuple(address for address, _ in found)
        case Absent():
            return Unknown("the addresses of the API server are not known")
        case Unknown():
            return installation.api_server
    match installation.node_addresses:
        case Present(nodes):
            return (*api, *nodes)
        case Absent():
            return api
        case Unknown():
            return installation.node_addresses


def _ingress(sandbox: AgentSandbox) -> list[dict[str, Any]]:
    ports = [{"protocol": item.protocol, "port": item.port} for item in sandbox.spec.ports]
    return [{"ports": ports}] if ports else []


def _to_movers(operator_namespace: str) -> dict[str, Any]:
    labels = {names.LABEL_APP: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_MOVER}
    peer = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: operator_namespace}},
        "podSelector": {"matchLabels": labels},
    }
    return {"to": [peer], "ports": [{"protocol": "TCP", "port": names.PORT_KEEPERS}]}


def _to_dns() -> dict[str, Any]:
    peer = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    return {"to": [peer], "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}


def _to_public(cluster: Sequence[str]) -> list[dict[str, Any]]:
    extra = ranges.public_addresses(cluster)
    v4 = [ranges.single(address) for address in extra if isinstance(address, IPv4Address)]
    v6 = [ranges.single(address) for address in extra if not isinstance(address, IPv4Address)]
    blocks = (
        (ranges.EVERY_V4, [*map(str, ranges.FORBIDDEN_V4), *v4]),
        (ranges.GLOBAL_V6, [*map(str, ranges.FORBIDDEN_V6), *v6]),
    )
    return [{"to": [{"ipBlock": {"cidr": str(network), "except": closed}}]} for network, closed in blocks]
