"""Asking, as far as it can go wrong between two sockets; `tests/programs/cli/test_ask.py` asks a real operator."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandhold.handlers import ask

BUSY = {"ok": False, "code": "busy", "message": "too many questions at once"}


@pytest.fixture(params=[0, 10], ids=["at once", "after the question came"])
def turning_away(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A door that answers whoever comes without having read a word, and closes."""
    path, is_over = tmp_path / "door", threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while not is_over.is_set():
                if select.select([listener], [], [], 0.05)[0]:
                    connection, _ = listener.accept()
                    with connection:
                        select.select([connection], [], [], request.param)
                        connection.sendall(json.dumps(BUSY).encode() + b"\n")

        door = threading.Thread(target=serve, daemon=True)
        door.start()
        yield path
        is_over.set()
        door.join(20)
    assert not door.is_alive()


def test_who_is_turned_away_is_told_why(turning_away: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(50):
        assert ask.main(["--socket", str(turning_away), "installation"]) == 1
        assert json.loads(capsys.readouterr().out) == BUSY
