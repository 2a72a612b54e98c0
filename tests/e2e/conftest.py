"""The real cluster with Sandhold installed, and a namespace of its own for each test.

A test that fails leaves in its report what a person would look at first. Clean-up does not depend on the product that
is being tested: when a session does not go by itself within the bound, its archive is given up and said so.
"""

import contextlib
import re
from collections.abc import Generator, Iterator

import pytest

from installation.client import Cluster, until
from sandhold import names
from testbed import places
from testbed.failure import TestbedError
from testkit.cluster_client import SYSTEM, Field

_CLEAN_SECONDS = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that `-m e2e` and `-m 'not e2e'` mean what they say."""
    for item in items:
        if "tests/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if not places.kubeconfig().exists():
        pytest.fail("the cluster is not up: run `hack/cluster up` and `hack/install --for-tests`")
    client = Cluster()
    _put_right(client)
    yield client
    client.close()


def _put_right(client: Cluster) -> None:
    """What an earlier run that was cut off may have left away."""
    for deployment in ("sandhold-operator", "sandhold-mover"):
        client.scale(SYSTEM, deployment, 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    field = getattr(item, "funcargs", {}).get("field")
    if report.failed and isinstance(field, Field):
        report.sections.append(("what the cluster says", _state(field)))
    return report


def _state(field: Field) -> str:
    said = []
    for words in (
        ("get", "sandhold,pods", "-n", field.namespace, "-o", "wide"),
        ("get", "sandboxsessions", "-n", field.namespace, "-o", "yaml"),
        ("get", "events", "-n", field.namespace, "--sort-by=.lastTimestamp"),
        ("logs", "-n", SYSTEM, "deployment/sandhold-operator", "--tail=60"),
        ("logs", "-n", SYSTEM, "deployment/sandhold-mover", "--tail=60"),
    ):
        try:
            done = field.cluster.try_kubectl(*words, timeout=20)
            said.append(f"$ kubectl {' '.join(words)}\n{done.stdout}{done.stderr}")
        except TestbedError as error:
            said.append(str(error))
    return "\n".join(said)


@pytest.fixture
def field(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Field]:
    """A namespace for one test."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    made = Field(cluster, f"e2e-{readable}-{names.short_hash(request.node.nodeid, length=6)}")
    _clear(made)
    absent = f"the namespace {made.namespace} of an earlier run goes"
    until(absent, lambda: cluster.get("Namespace", "", made.namespace) is None, seconds=_CLEAN_SECONDS)
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}})
    yield made
    stuck = _clear(made)
    assert not stuck, f"sessions that did not go when they were deleted: {stuck}"


def _clear(field: Field) -> list[str]:
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
