"""Brings the test cluster up for those who need one, in a process of its own that says what it does."""

import subprocess

from installation.deploying import REPOSITORY
from testbed.failure import TestbedError

# The first time on a machine everything is built from source.
_UP_SECONDS = 3600


def bring_up() -> None:
    """`hack/cluster up`: quick when the cluster is well."""
    program = [str(REPOSITORY / "hack" / "cluster"), "up"]
    if subprocess.run(program, check=False, timeout=_UP_SECONDS).returncode:
        raise TestbedError("the cluster did not come up")
