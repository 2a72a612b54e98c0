"""`sandhold exec` and `sandhold logs` in real pods: what runs there is as if it ran here."""

import hashlib
import os
import pty
import subprocess
import termios
from fcntl import ioctl
from struct import pack
from typing import Any

import pytest

from installation.client import until
from testkit.cli_on_cluster import PROGRAM, environment, typed
from testkit.cluster_client import Field

pytestmark = pytest.mark.long

_SHELL_COMMAND: dict[str, Any] = {"command": ["sh", "-c", "echo to-output; echo to-errors >&2; exec sleep 3600"]}


@pytest.mark.parametrize("tier", ["runc", "gvisor"])
def test_a_command_runs_as_if_it_were_here(field: Field, tier: str) -> None:
    """Output, errors, input, exit code, a terminal and its size."""
    field.sandbox("coder", tier)
    field.session("quill", "coder").wait_phase("Ready")

    done = typed(field, "exec", "quill", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert typed(field, "exec", "quill", "--", "true").returncode == 0

    content = os.urandom(3 << 20)
    counted = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    done = typed(field, "exec", "-i", "quill", "--", "python3", "-c", counted, stdin=content)
    assert done.stdout.decode().strip() == hashlib.sha256(content).hexdigest()
    done = typed(field, "exec", "-i", "quill", "--", "cat", stdin=content)
    assert done.stdout == content
    assert typed(field, "exec", "-i", "quill", "--", "cat", stdin=b"").stdout == b""

    done = typed(field, "exec", "quill", "--", "no-such-program")
    assert done.returncode in (125, 127)
    assert b"no-such-program" in done.stderr

    # The size comes a moment after the process.
    shown = (
        "import os, sys, time; end = time.time() + 60\n"
        "while os.get_terminal_size() != (101, 33) and time.time() < end: time.sleep(0.05)\n"
        "print([os.isatty(each) for each in range(3)], *os.get_terminal_size()); sys.exit(3)"
    )
    seen = _at_a_terminal(field, "exec", "-it", "quill", "--", "python3", "-c", shown)
    assert seen == (3, "[True, True, True] 101 33\r\n")


def _at_a_terminal(field: Field, *words: str) -> tuple[int, str]:
    """Exit code and output of a command that was typed at a terminal of 33 lines and 101 columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 33, 101, 0, 0))
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [PROGRAM, "-n", field.namespace, *words],
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    output, errors = process.communicate(timeout=120)
    assert termios.tcgetattr(theirs) == before, "the terminal is given back as it was found"
    os.close(ours)
    os.close(theirs)
    assert errors == b""
    return process.returncode, output.decode()


def test_logs_of_agent_and_keeper(field: Field) -> None:
    field.sandbox("coder", **_SHELL_COMMAND)
    field.session("quill", "coder").wait_phase("Ready")
    # Which of two streams comes first is the runtime's business.
    both = [b"to-errors", b"to-output"]
    until(
        "the agent has written", lambda: sorted(typed(field, "logs", "quill").stdout.splitlines()) == both, seconds=90
    )
    assert typed(field, "logs", "quill", "--tail", "1").stdout.strip() in both
    assert typed(field, "logs", "quill", "--keeper").returncode == 0
    done = typed(field, "logs", "quill", "--previous")
    assert done.returncode == 1
    assert b"previous terminated container" in done.stderr
    following = subprocess.Popen(
        [PROGRAM, "-n", field.namespace, "logs", "-f", "quill"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert following.stdout is not None
    assert following.stdout.readline().strip() in both
    following.send_signal(2)
    _, errors = following.communicate(timeout=90)
    assert following.returncode == 130, errors
