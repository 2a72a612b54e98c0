"""The command line as a program, on one real API server; each test in a namespace of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from testkit.api_server import ApiServer, server_for_tests
from testkit.cli_place import Place

_numbers = count(1)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    yield from server_for_tests(tmp_path_factory.mktemp("api-server"))


@pytest.fixture
def place(api_server: ApiServer, tmp_path: Path) -> Place:
    return Place(api_server, api_server.add_namespace(f"cli-{next(_numbers)}"), tmp_path)
