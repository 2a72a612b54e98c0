"""Namespaces for e2e tests: each has its own, and clean-up does not depend on the product that is being tested."""

import contextlib
import re
import secrets

from installation.client import Cluster, until
from testbed.failure import TestbedError
from testkit.cluster_client import Field

LABEL = "sandhold-e2e"
"""Its value is the run of the tests that made the namespace: the processes of one run leave each other's alone."""
_CLEAN_SECONDS = 150
"""Other tests run meanwhile, and may have taken away what a stop needs."""


def field_of(cluster: Cluster, name: str, run: str) -> Field:
    """Make a namespace for a test of a run."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("test_"))[:40].strip("-")
    made = Field(cluster, f"e2e-{readable}-{secrets.token_hex(3)}")
    metadata = {"name": made.namespace, "labels": {LABEL: run}}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return made


def clear(field: Field) -> list[str]:
    """Have all that is in the namespace go, and then itself; returns the sessions that had to be given up."""
    cluster, namespace = field.cluster, field.namespace
    if cluster.get("Namespace", "", namespace) is None:
        return []
    for session in cluster.list("SandboxSession", namespace):
        cluster.delete("SandboxSession", namespace, session["metadata"]["name"])
    stuck: list[str] = []
    try:
        until(
            f"{namespace}: sessions go", lambda: not cluster.list("SandboxSession", namespace), seconds=_CLEAN_SECONDS
        )
    except TestbedError:
        stuck = _give_up(field)
    for sandbox in cluster.list("AgentSandbox", namespace):
        cluster.delete("AgentSandbox", namespace, sandbox["metadata"]["name"])
    cluster.delete("Namespace", "", namespace)
    return stuck


def _give_up(field: Field) -> list[str]:
    """The documented way out: finalizers are taken away by hand, and nothing is archived."""
    cluster, namespace = field.cluster, field.namespace
    stuck = [session["metadata"]["name"] for session in cluster.list("SandboxSession", namespace)]
    for name in stuck:
        with contextlib.suppress(TestbedError):
            cluster.patch("SandboxSession", namespace, name, {"metadata": {"finalizers": None}})
    for pod in cluster.list("Pod", namespace):
        cluster.delete("Pod", namespace, pod["metadata"]["name"], gracePeriodSeconds=0)
    return stuck
