"""The command line as a program, on one real API server; each test in a namespace of its own."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from testkit.api_server import ApiServer, binaries
from testkit.cli_place import Place

_numbers = count(1)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    found = binaries()
    if found is None:
        reason = "the API server's binary is not in the cache: run `hack/cluster build`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = ApiServer(tmp_path_factory.mktemp("api-server"), found).start()
    yield server
    server.stop()


@pytest.fixture
def place(api_server: ApiServer, tmp_path: Path) -> Place:
    return Place(api_server, api_server.add_namespace(f"cli-{next(_numbers)}"), tmp_path)
