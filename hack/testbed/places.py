"""Where the test cluster lives: directories, names and addresses, so that nothing else spells them out.

The cache is kept out of the tree because a checkout may be fresh every time (CI clones anew), the state directory
because unix sockets and overlay mounts want a short absolute path on a real disk.
"""

import os
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
HACK = SOURCE.parent

# One cluster a machine: the namespace, the link and the addresses below are fixed.
NETNS = "sandhold"
NETNS_FILE = Path("/run/netns") / NETNS
LOCK_FILE = Path("/run/sandhold-testbed.lock")
CGROUP = "sandhold"
NODE = "sandhold-node"
CONTEXT = "sandhold-testbed"

HOST_LINK = "sandhold0"
HOST_ADDRESS = "172.31.0.1"
NODE_LINK = "eth0"
NODE_ADDRESS = "172.31.0.2"
METADATA_ADDRESS = "169.254.169.254"
POD_RANGE = "10.244.0.0/16"
NODE_POD_RANGE = "10.244.0.0/22"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"

API_URL = f"https://{NODE_ADDRESS}:6443"
S3_URL = f"http://{NODE_ADDRESS}:7070"
S3_ACCESS_KEY = "sandhold-test"
S3_SECRET_KEY = "sandhold-test-secret"  # noqa: S105 - a test bed reachable from this machine only
S3_BUCKET = "sandhold"
S3_REGION = "us-east-1"


def cache() -> Path:
    """The directory of everything that is expensive to make and safe to keep."""
    chosen = os.environ.get("SANDHOLD_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "sandhold"


def state() -> Path:
    """The directory of the running cluster: `down` removes all of it but the logs and the image store."""
    return Path(os.environ.get("SANDHOLD_STATE") or "/var/lib/sandhold-testbed").absolute()


def kubeconfig() -> Path:
    """The administrator's kubeconfig, good on the host and inside the cluster's network namespace."""
    return state() / "kubeconfig"


def containerd_socket() -> Path:
    """Where containerd listens."""
    return state() / "containerd" / "containerd.sock"
