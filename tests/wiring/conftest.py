"""One real API server for all tests here, each in a namespace of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config

from sandhold.cluster.client import KubeDoor
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
    # TLS connections that were told to close take a moment, and a loop that ends first leaves them open.
    async with asyncio.timeout(10):
        while _connections_to(api_server.port):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)


def _connections_to(port: int) -> int:
    """How many sockets of this process are connected to a port."""
    ours = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            ours.add(str(entry.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in ours for row in rows if row[2].endswith(f":{port:04X}"))


@pytest.fixture
async def door(configuration: Configuration) -> AsyncIterator[KubeDoor]:
    opened = KubeDoor(configuration)
    yield opened
    await opened.close()
