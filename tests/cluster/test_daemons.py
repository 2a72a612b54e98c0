"""What is believed about a daemon: only a process that is the very one which was started; and logs stay bounded."""

import json
import os
from pathlib import Path

import pytest

from testbed import log_trimmer, places, processes


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SANDHOLD_STATE", str(tmp_path))
    (tmp_path / "run").mkdir()
    assert places.state() == tmp_path
    return tmp_path


def write_record(**record: object) -> None:
    processes.record_file("etcd").write_text(json.dumps(record))


@pytest.mark.usefixtures("state")
def test_a_live_process_with_the_recorded_start_is_running() -> None:
    write_record(pid=os.getpid(), start=processes.start_time(os.getpid()), digest="d")
    known = processes.running("etcd")
    assert known is not None
    assert known.pid == os.getpid()


@pytest.mark.usefixtures("state")
def test_a_pid_that_was_used_again_is_not_running() -> None:
    write_record(pid=os.getpid(), start=1, digest="d")
    assert processes.running("etcd") is None


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("torn", ["", "{", "[]", '{"pid": 1}'])
def test_a_torn_record_is_no_record(torn: str) -> None:
    processes.record_file("etcd").write_text(torn)
    assert processes.running("etcd") is None


def test_a_log_is_cut_to_its_newest_lines_under_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_trimmer, "LARGEST", 1000)
    log = tmp_path / "etcd.log"
    with log.open("a") as writer:
        for number in range(200):
            writer.write(f"line {number:06}\n")
        writer.flush()
        log_trimmer.trim(log)
        assert log.stat().st_size <= 500
        writer.write("the next line\n")
    lines = log.read_text().splitlines()
    assert lines[0].startswith("line ")
    assert lines[-2:] == ["line 000199", "the next line"]


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "etcd.log"
    log.write_text("a line\n")
    log_trimmer.trim(log)
    assert log.read_text() == "a line\n"
