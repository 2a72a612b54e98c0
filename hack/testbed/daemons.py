"""The daemons of the cluster: with what they are started, and how to know that they serve."""

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from testbed import api, configuration, health, packages, pki, places, s3


@dataclass(frozen=True)
class Daemon:
    """One daemon: its command line, the files it only reads at its start, and the question whether it serves."""

    name: str
    argv: list[str]
    serves: Callable[[], bool]
    reads: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    # What must hold before it is started: for one that gives up at once where others would wait.
    may_start: Callable[[], bool] = lambda: True

    def digest(self) -> str:
        """What it was started with: a running daemon with another digest is restarted."""
        told = hashlib.sha256(json.dumps([self.argv, sorted(self.env.items())]).encode())
        for path in self.reads:
            told.update(path.read_bytes())
        return told.hexdigest()[:16]

    def environment(self) -> dict[str, str]:
        """A small environment of its own: proxies and settings of the calling shell mean nothing in there."""
        return {"PATH": packages.SYSTEM_PATH, "HOME": "/root", "LANG": "C.UTF-8"} | self.env


def table(bin_dirs: dict[str, Path]) -> dict[str, Daemon]:
    """Every daemon, in the order in which they are started."""
    kube = bin_dirs["kube"]
    daemons = [
        _program("log-trimmer", "log_trimmer.py", [str(places.state() / "logs")], lambda: True),
        _program(
            "metadata",
            "metadata_server.py",
            [places.METADATA_ADDRESS, "80"],
            health.accepts_inside(places.METADATA_ADDRESS, 80),
        ),
        _s3(bin_dirs["versitygw"]),
        _etcd(kube),
        _containerd(bin_dirs),
        _apiserver(kube),
        _controllers(kube),
        _scheduler(kube),
        _kube_proxy(kube),
        _kubelet(kube),
        _kube_router(bin_dirs["kube-router"]),
    ]
    return {daemon.name: daemon for daemon in daemons}


def _program(name: str, file: str, arguments: list[str], serves: Callable[[], bool]) -> Daemon:
    source = places.SOURCE / file
    return Daemon(name, [sys.executable, "-S", "-E", str(source), *arguments], serves, reads=(source,))


def _s3(bin_dir: Path) -> Daemon:
    data = places.state() / "s3"
    data.mkdir(parents=True, exist_ok=True)
    address = places.S3_URL.removeprefix("http://")
    keys = {"ROOT_ACCESS_KEY": places.S3_ACCESS_KEY, "ROOT_SECRET_KEY": places.S3_SECRET_KEY}
    argv = [str(bin_dir / "versitygw"), "--port", address, "--region", places.S3_REGION, "--quiet", "posix", str(data)]
    return Daemon("s3", argv, s3.ready, env=keys)


def _etcd(kube: Path) -> Daemon:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    argv = [
        *(str(kube / "etcd"), "--name", "sandhold", "--data-dir", str(places.state() / "etcd")),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"sandhold={peer}"),
        *("--listen-metrics-urls", f"http://{places.NODE_ADDRESS}:2381"),
        # A test bed loses nothing that matters when the machine loses power, and this disk is shared with builds.
        *("--unsafe-no-fsync", "--log-level", "warn", "--quota-backend-bytes", str(4 * 1024**3)),
        *("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "10m"),
    ]
    return Daemon("etcd", argv, health.answers(2381, "/health"))


def _containerd(bin_dirs: dict[str, Path]) -> Daemon:
    config = configuration.directory() / "containerd.toml"
    path = f"{bin_dirs['containerd']}:{bin_dirs['gvisor']}:{packages.SYSTEM_PATH}"
    argv = [str(bin_dirs["containerd"] / "containerd"), "--config", str(config), "--log-level", "warn"]
    return Daemon(
        "containerd", argv, health.listens(str(places.containerd_socket())), reads=(config,), env={"PATH": path}
    )


def _apiserver(kube: Path) -> Daemon:
    keys, logs = pki.directory(), places.state() / "logs"
    argv = [
        *(str(kube / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379"),
        *(f"--advertise-address={places.NODE_ADDRESS}", f"--bind-address={places.NODE_ADDRESS}"),
        f"--service-cluster-ip-range={places.SERVICE_RANGE}",
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
        *(f"--client-ca-file={keys}/ca.crt", f"--tls-cert-file={keys}/apiserver.crt"),
        *(f"--tls-private-key-file={keys}/apiserver.key", f"--kubelet-certificate-authority={keys}/ca.crt"),
        f"--kubelet-client-certificate={keys}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={keys}/apiserver-kubelet-client.key",
        # By name it would look the node up in a DNS that does not know it, and exec and logs would hang.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys}/service-accounts.key",
        f"--service-account-signing-key-file={keys}/service-accounts.key",
        *(f"--audit-policy-file={configuration.directory()}/audit.json", f"--audit-log-path={logs}/audit.jsonl"),
        *("--audit-log-maxsize=64", "--audit-log-maxbackup=2"),
    ]
    reads = (configuration.directory() / "audit.json",)
    return Daemon("kube-apiserver", argv, api.ready, reads=reads)


def _controllers(kube: Path) -> Daemon:
    keys, config = pki.directory(), str(pki.directory() / "kube-controller-manager.kubeconfig")
    argv = [
        *(str(kube / "kube-controller-manager"), f"--kubeconfig={config}", "--leader-elect=false"),
        *("--allocate-node-cidrs=true", f"--cluster-cidr={places.POD_RANGE}", "--node-cidr-mask-size=22"),
        *("--use-service-account-credentials=true", f"--root-ca-file={keys}/ca.crt"),
        *(f"--service-account-private-key-file={keys}/service-accounts.key", "--node-monitor-grace-period=20s"),
        *(f"--cluster-signing-cert-file={keys}/ca.crt", f"--cluster-signing-key-file={keys}/ca.key"),
        *(f"--bind-address={places.NODE_ADDRESS}", "--kube-api-qps=100", "--kube-api-burst=200"),
    ]
    return Daemon("kube-controller-manager", argv, health.answers(10257, "/healthz", tls=True))


def _scheduler(kube: Path) -> Daemon:
    config = pki.directory() / "kube-scheduler.kubeconfig"
    argv = [
        *(str(kube / "kube-scheduler"), f"--kubeconfig={config}", "--leader-elect=false"),
        *(f"--bind-address={places.NODE_ADDRESS}", "--kube-api-qps=100", "--kube-api-burst=200"),
    ]
    return Daemon("kube-scheduler", argv, health.answers(10259, "/healthz", tls=True))


def _kube_proxy(kube: Path) -> Daemon:
    config = pki.directory() / "kube-proxy.kubeconfig"
    argv = [
        *(str(kube / "kube-proxy"), f"--kubeconfig={config}", f"--hostname-override={places.NODE}"),
        *("--proxy-mode=iptables", f"--cluster-cidr={places.POD_RANGE}"),
        f"--healthz-bind-address={places.NODE_ADDRESS}:10256",
        # The sysctls behind these are not writable here, and it would give up over them.
        *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0"),
        *("--conntrack-tcp-timeout-close-wait=0", "--iptables-min-sync-period=100ms"),
    ]
    return Daemon("kube-proxy", argv, health.answers(10256, "/livez"))


def _kubelet(kube: Path) -> Daemon:
    config, keys = configuration.directory() / "kubelet.json", pki.directory()
    argv = [
        *(str(kube / "kubelet"), f"--config={config}", f"--kubeconfig={keys}/kubelet.kubeconfig"),
        *(f"--hostname-override={places.NODE}", f"--node-ip={places.NODE_ADDRESS}"),
        *(f"--root-dir={places.state()}/kubelet", f"--cert-dir={keys}"),
    ]
    return Daemon("kubelet", argv, health.answers(10248, "/healthz"), reads=(config,))


def _kube_router(bin_dir: Path) -> Daemon:
    config = pki.directory() / "kube-router.kubeconfig"
    argv = [
        *(str(bin_dir / "kube-router"), f"--kubeconfig={config}", f"--hostname-override={places.NODE}"),
        *("--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--enable-cni=false"),
        *(f"--service-cluster-ip-range={places.SERVICE_RANGE}", "--health-port=20244"),
    ]
    serves = health.answers(20244, "/healthz")
    return Daemon("kube-router", argv, serves, may_start=lambda: api.node_conditions() is not None)
