"""One real API server for all tests here, each in a namespace of its own."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config

from sandhold.cluster.client import KubeDoor
from testkit import connections
from testkit.api_server import ApiServer, server_for_tests

_numbers = count(1)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    yield from server_for_tests(tmp_path_factory.mktemp("api-server"))


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    return api_server.add_namespace(f"test-{next(_numbers)}")


@pytest.fixture
async def configuration(api_server: ApiServer) -> AsyncIterator[Configuration]:
    loaded = Configuration()
    await load_kube_config(str(api_server.kubeconfig), client_configuration=loaded, persist_config=False)
    yield loaded
    await connections.closed(api_server.port)


@pytest.fixture
async def door(configuration: Configuration) -> AsyncIterator[KubeDoor]:
    opened = KubeDoor(configuration)
    yield opened
    await opened.close()
