"""Certificates and kubeconfigs: one authority for the whole cluster, one identity for each part of it."""

import base64
import json
from pathlib import Path

from testbed import places
from testbed.commands import run

DAYS = "3650"

# file name: subject; the subject is the identity that the API server's authorizer sees
CLIENTS = {
    "admin": "/O=system:masters/CN=sandhold-admin",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "kubelet": f"/O=system:nodes/CN=system:node:{places.NODE}",
    "kube-router": "/O=system:masters/CN=kube-router",
    "apiserver-kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
}
SERVERS = {
    "apiserver": (
        f"IP:{places.NODE_ADDRESS},IP:{places.API_SERVICE_ADDRESS},IP:127.0.0.1,DNS:localhost,DNS:kubernetes,"
        "DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
    ),
    "kubelet-server": f"IP:{places.NODE_ADDRESS},DNS:{places.NODE}",
}


def directory() -> Path:
    """Where keys and certificates are."""
    return places.state() / "pki"


def create() -> None:
    """Make what is missing. The last file made marks the whole, so a run that was killed here starts over."""
    done = directory() / "done"
    if done.exists():
        return
    directory().mkdir(mode=0o700, parents=True, exist_ok=True)
    _key("ca")
    run([
        *("openssl", "req", "-x509", "-new", "-sha256", "-days", DAYS, "-subj", "/CN=sandhold-testbed"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"),
        *("-key", _path("ca.key"), "-out", _path("ca.crt")),
    ])  # fmt: skip
    for name, subject in CLIENTS.items():
        _issue(name, subject, "clientAuth", None)
    for name, addresses in SERVERS.items():
        _issue(name, f"/CN={name}", "serverAuth", addresses)
    run(["openssl", "genrsa", "-out", _path("service-accounts.key"), "2048"])
    for name in CLIENTS:
        target = places.kubeconfig() if name == "admin" else directory() / f"{name}.kubeconfig"
        partial = target.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(_kubeconfig(name))
        partial.rename(target)
    done.touch()


def _path(name: str) -> str:
    return str(directory() / name)


def _key(name: str) -> None:
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", _path(f"{name}.key")])


def _issue(name: str, subject: str, usage: str, addresses: str | None) -> None:
    _key(name)
    extra = ["-addext", f"subjectAltName={addresses}"] if addresses else []
    run([
        *("openssl", "req", "-x509", "-new", "-sha256", "-days", DAYS, "-subj", subject),
        *("-CA", _path("ca.crt"), "-CAkey", _path("ca.key"), "-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "keyUsage=critical,digitalSignature", "-addext", f"extendedKeyUsage={usage}", *extra),
        *("-key", _path(f"{name}.key"), "-out", _path(f"{name}.crt")),
    ])  # fmt: skip


def _kubeconfig(name: str) -> str:
    """A kubeconfig that carries its keys, so that it can be copied; JSON is YAML."""

    def data(file: str) -> str:
        return base64.b64encode((directory() / file).read_bytes()).decode()

    context = places.CONTEXT
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": name}}],
        "clusters": [
            {"name": context, "cluster": {"server": places.API_URL, "certificate-authority-data": data("ca.crt")}}
        ],
        "users": [
            {
                "name": name,
                "user": {"client-certificate-data": data(f"{name}.crt"), "client-key-data": data(f"{name}.key")},
            }
        ],
    }
    return json.dumps(document, indent=2) + "\n"
