"""The daemons' configuration files: what is unusual in them is there because the machine or the purpose asks for it."""

import json
from pathlib import Path
from typing import Any

from testbed import images, places

KUBELET_POD_PIDS = 512
MOST_PODS = 250


def directory() -> Path:
    """Where the files are written."""
    return places.state() / "config"


def write_all(bin_dirs: dict[str, Path]) -> None:
    """Write every file; the daemons that read them are restarted by whoever sees that the content has changed."""
    directory().mkdir(parents=True, exist_ok=True)
    for name, content in files(bin_dirs).items():
        path = directory() / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


def files(bin_dirs: dict[str, Path]) -> dict[str, str]:
    """All files, by name."""
    return {
        "containerd.toml": _containerd(bin_dirs),
        "runsc.toml": _runsc(bin_dirs),
        "cni/10-sandhold.conflist": _json(_cni()),
        "kubelet.json": _json(_kubelet()),
        "audit.json": _json(_audit()),
        "resolv.conf": f"nameserver {places.DNS_ADDRESS}\n",
    }


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _containerd(bin_dirs: dict[str, Path]) -> str:
    """Everything below the state directory, nothing at the usual places, so that `down` can find all of it.

    `restrict_oom_score_adj`: without CAP_SYS_RESOURCE no pod would start. The socket's address belongs into the tables
    below; the `[grpc]` table of older versions is ignored in silence.
    """
    home = places.state() / "containerd"
    return f"""version = 4
root = '{home}/root'
state = '{home}/state'
temp = '{home}/temp'
imports = []

[plugins.'io.containerd.server.v1.grpc']
  address = '{places.containerd_socket()}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{places.containerd_socket()}.ttrpc'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{home}/s'
[plugins.'io.containerd.internal.v1.opt']
  path = '{home}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{images.PAUSE}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  enable_criu = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{bin_dirs["cni"]}']
  conf_dir = '{directory()}/cni'
{_runtimes()}"""


def _runtimes() -> str:
    home, runtimes = places.state() / "containerd", "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"
    return f"""[{runtimes}.runc]
  runtime_type = 'io.containerd.runc.v2'
  [{runtimes}.runc.options]
    BinaryName = 'runc'
    Root = '{home}/runc'
[{runtimes}.runsc]
  runtime_type = 'io.containerd.runsc.v1'
  [{runtimes}.runsc.options]
    TypeUrl = 'io.containerd.runsc.v1.options'
    ConfigPath = '{directory()}/runsc.toml'
"""


def _runsc(bin_dirs: dict[str, Path]) -> str:
    return f"""binary_name = '{bin_dirs["gvisor"]}/runsc'
root = '{places.state()}/containerd/runsc'
"""


def _cni() -> dict[str, Any]:
    """A bridge without masquerading: nothing leaves this namespace, and policies see the pods' own addresses."""
    return {
        "cniVersion": "1.0.0",
        "name": "sandhold",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(places.state() / "cni"),
                    "ranges": [[{"subnet": places.NODE_POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet() -> dict[str, Any]:
    """Tolerant of this kind of machine (cgroup v1, swap, a shared disk), strict where the product depends on it."""
    pki = places.state() / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": places.NODE_ADDRESS,
        "authentication": {"x509": {"clientCAFile": str(pki / "ca.crt")}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{places.CGROUP}",
        "clusterDNS": [places.DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerLogMaxFiles": 2,
        "containerRuntimeEndpoint": f"unix://{places.containerd_socket()}",
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": places.NODE_ADDRESS,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": MOST_PODS,
        "podLogsDir": str(places.state() / "pod-logs"),
        "podPidsLimit": KUBELET_POD_PIDS,
        "resolvConf": str(directory() / "resolv.conf"),
        "serializeImagePulls": False,
        # Every 5 s, so that a node whose kubelet is away is noticed within the 20 s that the controllers wait here.
        "nodeLeaseDurationSeconds": 20,
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "volumePluginDir": str(places.state() / "kubelet" / "volume-plugins"),
    }


def _audit() -> dict[str, Any]:
    """Who did what to which object, without bodies: enough to count a controller's writes."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
