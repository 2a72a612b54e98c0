"""Has the test cluster to oneself, and brings it up: what the test run, the demonstration and the bench begin with."""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imaging.staging import REPOSITORY
from testbed import packages
from testbed.failure import TestbedError

# There is one cluster a machine, however many checkouts.
_LOCK = Path("/run/sandhold-testbed-user.lock")
# The first time on a machine everything is built from source.
_UP_SECONDS = 3600


@contextmanager
def cluster_to_oneself() -> Iterator[None]:
    """Wait until no other run works with the cluster; the kernel lets go of the lock however a run ends."""
    packages.require_root()
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another test run, demonstration or bench uses the cluster; waiting for it to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bring_up() -> None:
    """`hack/cluster up`: quick when the cluster is well."""
    program = [str(REPOSITORY / "hack" / "cluster"), "up"]
    if subprocess.run(program, check=False, timeout=_UP_SECONDS).returncode:
        raise TestbedError("the cluster did not come up")
