"""One S3 server and one mover for all tests that do them no harm, and fresh ones for those that do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.mover_process import MoverProcess, Pod, new_pod
from testkit.pki import Installation
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer


@pytest.fixture(scope="session")
def installation() -> Installation:
    return Installation.new()


@pytest.fixture(scope="session")
def reviews() -> Iterator[TokenReviewServer]:
    server = TokenReviewServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mover(
    tmp_path_factory: pytest.TempPathFactory, installation: Installation, reviews: TokenReviewServer, s3: S3Server
) -> Iterator[MoverProcess]:
    process = MoverProcess(tmp_path_factory.mktemp("mover"), installation, reviews)
    process.use(s3)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    server = S3Server(tmp_path / "s3")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_mover(tmp_path: Path, installation: Installation, reviews: TokenReviewServer) -> Iterator[MoverProcess]:
    """Not started, and without a store."""
    folder = tmp_path / "mover"
    folder.mkdir()
    process = MoverProcess(folder, installation, reviews)
    yield process
    process.kill()


@pytest.fixture
def two_movers(
    tmp_path: Path, installation: Installation, reviews: TokenReviewServer
) -> Iterator[tuple[MoverProcess, MoverProcess]]:
    """Two movers of one installation, not started and without a store."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    movers = MoverProcess(one, installation, reviews), MoverProcess(two, installation, reviews)
    yield movers
    for mover in movers:
        mover.kill()


@pytest.fixture
def both(two_movers: tuple[MoverProcess, MoverProcess], s3: S3Server) -> tuple[MoverProcess, MoverProcess]:
    """Two movers of one installation that serve the shared store."""
    for mover in two_movers:
        mover.use(s3)
        mover.start()
    return two_movers


@pytest.fixture
def pod(reviews: TokenReviewServer) -> Pod:
    return new_pod(reviews)
