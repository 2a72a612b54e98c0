"""What every folder of tests may use."""

from collections.abc import Iterator

import pytest

from testkit.fault_matrix import FaultMatrix


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> Iterator[FaultMatrix]:
    """Where a test of faults records what it saw (docs/contributing/testing.md)."""
    made = FaultMatrix(request.node.nodeid)
    yield made
    made.end()
