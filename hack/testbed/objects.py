"""The objects that make a set of daemons a cluster people can use: DNS and the runtime classes."""

import hashlib
from typing import Any

from testbed import images, places

Document = dict[str, Any]

# No forwarding: there is nowhere to forward to, and a name that is nobody's should fail at once. Zones of their own,
# because inside one zone `template` would answer before the others are asked.
COREFILE = f"""cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {{
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        pods insecure
        ttl 5
    }}
    prometheus :9153
}}
sandhold.test:53 {{
    errors
    hosts {{
        {places.NODE_ADDRESS} s3.sandhold.test
    }}
}}
.:53 {{
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
LABELS = {"k8s-app": "kube-dns"}
DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"


def all_objects() -> dict[str, Document]:
    """Every object, by its path in the API, in an order in which they can be made."""
    core, rbac = "/api/v1/namespaces/kube-system", "/apis/rbac.authorization.k8s.io/v1"
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    return {
        f"{classes}/runc": _runtime_class("runc", "runc"),
        f"{classes}/gvisor": _runtime_class("gvisor", "runsc"),
        f"{core}/serviceaccounts/coredns": _object("v1", "ServiceAccount", "coredns"),
        f"{rbac}/clusterroles/system:coredns": _dns_role(),
        f"{rbac}/clusterrolebindings/system:coredns": _dns_binding(),
        f"{core}/configmaps/coredns": _object("v1", "ConfigMap", "coredns") | {"data": {"Corefile": COREFILE}},
        f"{core}/services/kube-dns": _object("v1", "Service", "kube-dns") | {"spec": _dns_service()},
        DEPLOYMENT: _object("apps/v1", "Deployment", "coredns") | {"spec": _dns_deployment()},
    }


def _object(version: str, kind: str, name: str, namespace: str | None = "kube-system") -> Document:
    metadata: Document = {"name": name}
    if namespace:
        metadata |= {"namespace": namespace, "labels": LABELS}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _runtime_class(name: str, handler: str) -> Document:
    return _object("node.k8s.io/v1", "RuntimeClass", name, None) | {"handler": handler}


def _dns_role() -> Document:
    watched = {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"]}
    slices = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]}
    rules = [rule | {"verbs": ["list", "watch"]} for rule in (watched, slices)]
    return _object("rbac.authorization.k8s.io/v1", "ClusterRole", "system:coredns", None) | {"rules": rules}


def _dns_binding() -> Document:
    return _object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "system:coredns", None) | {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
    }


def _dns_service() -> Document:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    return {"clusterIP": places.DNS_ADDRESS, "selector": LABELS, "ports": ports}


def _dns_deployment() -> Document:
    return {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS, "annotations": {"sandhold.test/corefile": _digest(COREFILE)}},
            "spec": {
                "serviceAccountName": "coredns",
                "priorityClassName": "system-cluster-critical",
                "dnsPolicy": "Default",
                "runtimeClassName": "runc",
                "terminationGracePeriodSeconds": 5,
                "containers": [_dns_container()],
                "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
            },
        },
    }


def _digest(text: str) -> str:
    """A mark of the configuration, so that a change of it makes a new pod."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _dns_container() -> Document:
    return {
        "name": "coredns",
        "image": images.COREDNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
