"""What a test run takes from the machine beside the test cluster: Go, git, gcc, and the tools of a restore by hand.

Go's race detector needs gcc; the restore by hand is the one that the documentation shows and a test performs.
"""

import os
import shutil

from testbed.commands import run
from testbed.failure import TestbedError

_INSTALL_SECONDS = 600
_BY_HAND = ("zstd", "curl", "openssl")
"""Programs, and the Debian packages of the same names."""


def ensure() -> None:
    """Have all of it, or say in one sentence what is missing."""
    lacking = [text for program, text in (("go", "Go 1.26 or newer"), ("git", "git")) if not shutil.which(program)]
    if not shutil.which("gcc") and not _installed("gcc", "libc6-dev"):
        lacking.append("gcc with the headers of the C library, for Go's race detector")
    by_hand = [program for program in _BY_HAND if not shutil.which(program)]
    if by_hand and not _installed(*by_hand):
        lacking.append(f"{', '.join(by_hand)}, for the restore by hand")
    if lacking:
        raise TestbedError(f"not installed: {', '.join(lacking)}")


def _installed(*packages: str) -> bool:
    """Install Debian packages where that can be done; whether it was."""
    if os.geteuid() or not shutil.which("apt-get"):
        return False
    print(f"installing Debian packages: {' '.join(packages)}", flush=True)
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    try:
        run([*quiet, "update"], timeout=_INSTALL_SECONDS)
        run([*quiet, "install", "-y", "--no-install-recommends", *packages], timeout=_INSTALL_SECONDS)
    except TestbedError as error:
        print(error, flush=True)
        return False
    return True
