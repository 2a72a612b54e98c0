"""The real cluster with Sandhold installed, and a namespace of its own for each test.

What a test leaves is cleared while the next one runs; whether all of it went is looked at in the end, at the latest.

A test that fails leaves in its report what a person would look at first. Clean-up does not depend on the product that
is being tested: when a session does not go by itself within the bound, its archive is given up and said so.
"""

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from installation.client import Cluster
from testbed import places
from testbed.failure import TestbedError
from testkit.cluster_client import SYSTEM, Field, daemon
from testkit.cluster_fields import LABEL, clear, field_of

_CLEARERS = 4


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: of those that run beside each other this one begins first")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that `-m e2e` and `-m 'not e2e'` mean what they say; long ones come first."""
    for item in items:
        if "tests/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def cluster(testrun_uid: str) -> Iterator[Cluster]:
    if not places.kubeconfig().exists():
        pytest.fail("the cluster is not up: run `hack/cluster up` and `hack/install --for-tests`")
    client = Cluster()
    _put_right(client, testrun_uid)
    yield client
    client.close()


def _put_right(client: Cluster, run: str) -> None:
    """What an earlier run that was cut off may have left away, or left behind; each process of this run may do it."""
    daemon("start", "s3")
    daemon("start", "kubelet")
    for deployment in ("sandhold-operator", "sandhold-mover"):
        client.scale(SYSTEM, deployment, 1)
    for left in client.list("Namespace", "", f"{LABEL},{LABEL}!={run}"):
        if "deletionTimestamp" not in left["metadata"]:
            clear(Field(client, left["metadata"]["name"]))


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
        ("logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator", "--tail=60"),
        ("logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=mover", "--tail=60"),
    ):
        try:
            done = field.cluster.try_kubectl(*words, timeout=20)
            said.append(f"$ kubectl {' '.join(words)}\n{done.stdout}{done.stderr}")
        except TestbedError as error:
            said.append(str(error))
    return "\n".join(said)


class Leavers:
    """Namespaces whose tests are over: they are cleared beside the tests that come after them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_CLEARERS)
        self._cleared: dict[str, Future[list[str]]] = {}

    def add(self, field: Field) -> None:
        """Have a namespace cleared; nothing is waited for."""
        self._cleared[field.namespace] = self._pool.submit(clear, field)

    def judge(self, *, is_end: bool = False) -> None:
        """Fail when sessions did not go: of the namespaces that are cleared by now, or in the end of all of them."""
        over = [namespace for namespace, cleared in self._cleared.items() if is_end or cleared.done()]
        stuck = {namespace: left for namespace in over if (left := self._cleared.pop(namespace).result())}
        assert not stuck, f"sessions that did not go when they were deleted, by the namespaces of their tests: {stuck}"

    def close(self) -> None:
        """Each clearing has a bound of its own."""
        self._pool.shutdown()


@pytest.fixture(scope="session")
def leavers(cluster: Cluster) -> Iterator[Leavers]:
    del cluster  # is let go of after the last of them
    made = Leavers()
    try:
        yield made
        made.judge(is_end=True)
    finally:
        made.close()


@pytest.fixture
def field(cluster: Cluster, leavers: Leavers, request: pytest.FixtureRequest, testrun_uid: str) -> Iterator[Field]:
    """A namespace for one test, with a name of its own in every run: archives of earlier runs stay in the store."""
    made = field_of(cluster, request.node.name, testrun_uid)
    yield made
    leavers.add(made)
    leavers.judge()
