"""The Debian packages and programs that the test cluster and the image builds take from the machine."""

import os
import shutil
import subprocess

from testbed.commands import run
from testbed.failure import TestbedError

# program: the package that brings it
NEEDED = {
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "openssl": "openssl",
    "nsenter": "util-linux",
}
INSTALL_SECONDS = 600
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_root() -> None:
    """Namespaces, mounts and cgroups need root; say so before the first of them fails half way."""
    if os.geteuid():
        raise TestbedError("the native test cluster needs root: run this as root")


def ensure_installed() -> None:
    """Install what is absent; without a way to do so, one sentence names what the machine lacks."""
    missing = sorted({package for program, package in NEEDED.items() if not shutil.which(program, path=SYSTEM_PATH)})
    if not missing:
        return
    wanted = " ".join(missing)
    if not shutil.which("apt-get"):
        raise TestbedError(f"these Debian packages, or what your system calls them, must be installed first: {wanted}")
    print(f"installing Debian packages: {wanted}", flush=True)
    install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"]
    try:
        if subprocess.run([*install, *missing], check=False, timeout=INSTALL_SECONDS, capture_output=True).returncode:
            # Most often the package lists are old or absent: fetch them once and try again.
            run(["apt-get", "update", "-q"], timeout=INSTALL_SECONDS)
            run([*install, *missing], timeout=INSTALL_SECONDS)
    except (TestbedError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"these Debian packages could not be installed: {wanted} ({error})") from error
