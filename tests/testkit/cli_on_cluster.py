"""`sandhold` as a process on the test cluster: what somebody types, and what it answers.

A traceback or the word of a defect fails the test whatever it was looking for.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from testbed import places
from testkit.cluster_client import REPOSITORY, Field

PROGRAM = str(Path(sys.executable).with_name("sandhold"))
_SECONDS = 120


def environment(kubeconfig: Path | None = None) -> dict[str, str]:
    """What the program finds around itself."""
    binaries = places.cache() / "bin"
    return {
        "PATH": f"{Path(sys.executable).parent}:{binaries}:{os.environ['PATH']}",
        "HOME": str(REPOSITORY / "build"),
        "KUBECONFIG": str(kubeconfig or places.kubeconfig()),
    }


def typed(
    field: Field, *words: str, stdin: bytes | None = None, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A command in the test's namespace, at its end."""
    done = subprocess.run(
        [PROGRAM, "-n", field.namespace, *words],
        env=environment(kubeconfig),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"defect" not in done.stderr, done.stderr
    return done


def told(field: Field, *words: str, kubeconfig: Path | None = None) -> Any:
    """The JSON that a command answers, which must succeed."""
    done = typed(field, *words, "-o", "json", kubeconfig=kubeconfig)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
