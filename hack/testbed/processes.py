"""Starting and ending the cluster's daemons, so that a kill at any instant leaves nothing unknown.

A record (pid and start time) is written before the daemon may run: the child waits for a word on a pipe and ends by
itself when the starter dies before giving it. The start time makes a record safe against a pid that was used again.
Everything is ended by pid; names are never searched for.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import cgroups, waiting
from testbed.failure import TestbedError
from testbed.places import NETNS_FILE, state

STOP_SECONDS = 10
KILL_SECONDS = 20

# Wait for the word, join the group, enter the network; the pid stays the same through all of it. `nsenter` and not
# `ip netns exec`: the latter remounts /sys, and the kubelet then finds no cgroups.
_START = 'read -r _ || exit 1; echo $$ >"$1"; shift; exec nsenter --net="$0" -- "$@" </dev/null'


@dataclass(frozen=True)
class Record:
    """A daemon that was started: which process it is, and a digest of what it was started with."""

    pid: int
    start: int
    digest: str


def record_file(name: str) -> Path:
    """Where a daemon's record is kept."""
    return state() / "run" / f"{name}.json"


def log_file(name: str) -> Path:
    """Where a daemon's output goes; `log_trimmer.py` keeps it bounded."""
    return state() / "logs" / f"{name}.log"


def start_time(pid: int) -> int | None:
    """When this process began, in ticks since boot; None when there is none (a zombie counts as none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def running(name: str) -> Record | None:
    """The record of this daemon when its process is alive and the very one that we started."""
    try:
        record = Record(**json.loads(record_file(name).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return None  # torn by a kill: its process, if any, is found by its cgroup
    return record if start_time(record.pid) == record.start else None


def spawn(name: str, argv: list[str], env: dict[str, str], digest: str) -> None:
    """Start a daemon in its cgroup and in the cluster's network, in a session of its own."""
    group = cgroups.daemon_group(name) / "cgroup.procs"
    with log_file(name).open("ab") as log:
        child = subprocess.Popen(
            ["sh", "-c", _START, str(NETNS_FILE), str(group), *argv],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    started = start_time(child.pid)
    if started is None or child.stdin is None:
        raise TestbedError(f"{name} ended before it began, see {log_file(name)}")
    _write_record(name, Record(child.pid, started, digest))
    child.stdin.write(b"go\n")
    child.stdin.close()
    _UNREAPED.append(child)


def _write_record(name: str, record: Record) -> None:
    partial = record_file(name).with_suffix(".partial")
    partial.write_text(json.dumps(asdict(record)))
    partial.rename(record_file(name))


# Children of this run: kept, so that one that dies while we wait for it is reaped and seen as gone.
_UNREAPED: list[subprocess.Popen[bytes]] = []


def alive(pid: int) -> bool:
    """Whether the process exists and is not merely waiting to be reaped."""
    for child in _UNREAPED:
        if child.pid == pid:
            return child.poll() is None
    return start_time(pid) is not None


def send(pids: Iterable[int], what: signal.Signals) -> None:
    """Signal processes; one that has just ended is no error."""
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            continue


def stop(name: str) -> bool:
    """End a daemon: asked first, then killed; whatever of its program is still in its group goes with it."""
    record = running(name)
    if record:
        send([record.pid], signal.SIGTERM)
        try:
            waiting.until(f"{name} ends", lambda: not alive(record.pid), seconds=STOP_SECONDS)
        except TestbedError:
            send([record.pid], signal.SIGKILL)
            waiting.until(f"{name} ends when killed", lambda: not alive(record.pid), seconds=KILL_SECONDS)
    record_file(name).unlink(missing_ok=True)
    return record is not None


def strays(name: str, program: str) -> list[int]:
    """Processes of this daemon's program in its group that no record knows: what a killed start left.

    Only the program itself: a containerd that died leaves shims in its group, and their pods must live on.
    """
    known = running(name)
    return [
        pid
        for pid in cgroups.processes(cgroups.daemon_group(name))
        if not (known and pid == known.pid) and Path(program).name == _argv0(pid)
    ]


def _argv0(pid: int) -> str:
    try:
        return Path(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")).name
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill_all(claim: str, pids: "Iterable[int]") -> None:
    """Kill these processes and wait until the kernel has let go of them."""
    doomed = list(pids)
    send(doomed, signal.SIGKILL)
    waiting.until(claim, lambda: not any(alive(pid) for pid in doomed), seconds=KILL_SECONDS)
