"""`sandhold` on the real cluster: commands in real pods, their logs, and the operator's word on what it would do."""

import hashlib
import json
import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from testbed import places
from testkit.cluster_client import REPOSITORY, SYSTEM, Field, store_away

_PROGRAM = str(Path(sys.executable).with_name("sandhold"))
_SHELL_COMMAND = {"command": ["sh", "-c", "echo to-output; echo to-errors >&2; exec sleep 3600"]}


def _environment(kubeconfig: Path | None = None) -> dict[str, str]:
    binaries = places.cache() / "bin"
    return {
        "PATH": f"{Path(sys.executable).parent}:{binaries}:{os.environ['PATH']}",
        "HOME": str(REPOSITORY / "build"),
        "KUBECONFIG": str(kubeconfig or places.kubeconfig()),
    }


def _run(
    field: Field, *words: str, stdin: bytes | None = None, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [_PROGRAM, "-n", field.namespace, *words],
        env=_environment(kubeconfig),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"defect" not in done.stderr, done.stderr
    return done


def _json(field: Field, *words: str, kubeconfig: Path | None = None) -> Any:
    done = _run(field, *words, "-o", "json", kubeconfig=kubeconfig)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _eventually(look: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("tier", ["runc", "gvisor"])
def test_a_command_runs_as_if_it_were_here(field: Field, tier: str) -> None:
    """Output, errors, input, exit code, a terminal and its size."""
    field.sandbox("coder", tier)
    field.session("quill", "coder").wait_phase("Ready")

    done = _run(field, "exec", "quill", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert _run(field, "exec", "quill", "--", "true").returncode == 0

    content = os.urandom(3 << 20)
    counted = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    done = _run(field, "exec", "-i", "quill", "--", "python3", "-c", counted, stdin=content)
    assert done.stdout.decode().strip() == hashlib.sha256(content).hexdigest()
    done = _run(field, "exec", "-i", "quill", "--", "cat", stdin=content)
    assert done.stdout == content
    assert _run(field, "exec", "-i", "quill", "--", "cat", stdin=b"").stdout == b""

    done = _run(field, "exec", "quill", "--", "no-such-program")
    assert done.returncode in (125, 127)
    assert b"no-such-program" in done.stderr

    # The size comes a moment after the process.
    shown = (
        "import os, sys, time; end = time.time() + 20\n"
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
        [_PROGRAM, "-n", field.namespace, *words],
        env=_environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    output, errors = process.communicate(timeout=60)
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
    _eventually(lambda: sorted(_run(field, "logs", "quill").stdout.splitlines()) == both, "the agent has written")
    assert _run(field, "logs", "quill", "--tail", "1").stdout.strip() in both
    assert _run(field, "logs", "quill", "--keeper").returncode == 0
    done = _run(field, "logs", "quill", "--previous")
    assert done.returncode == 1
    assert b"previous terminated container" in done.stderr
    following = subprocess.Popen(
        [_PROGRAM, "-n", field.namespace, "logs", "-f", "quill"],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert following.stdout is not None
    assert following.stdout.readline().strip() in both
    following.send_signal(2)
    _, errors = following.communicate(timeout=20)
    assert following.returncode == 130, errors


def test_a_life_by_the_command_line(field: Field) -> None:
    """Suspend, resume and remove, each waited for; what runs and what is kept is told on the way."""
    field.sandbox("coder")
    session = field.session("quill", "coder")
    assert _run(field, "session", "resume", "quill", "--wait").returncode == 0
    session.shell("echo kept > work")
    done = _run(field, "session", "suspend", "quill", "--wait")
    assert done.returncode == 0, done.stderr
    archive = session.status()["snapshot"]
    said = f"session quill suspended; its workspace is archive {archive['epoch']}-{archive['sequence']}\n"
    assert done.stdout.decode() == said
    done = _run(field, "exec", "quill", "--", "true")
    assert done.returncode == 125
    assert b"session resume quill --wait" in done.stderr
    assert _run(field, "session", "resume", "quill", "--wait").stdout == b"session quill is ready\n"
    assert _run(field, "exec", "quill", "--", "cat", "work").stdout == b"kept\n"
    rows = _json(field, "snapshot", "ls")["items"]
    assert [row["name"] for row in rows if row["final"] is not False][-1] == archive["name"]
    removed = _json(field, "session", "rm", "quill", "--wait")
    assert removed["gone"] is True
    assert session.is_gone()


@pytest.mark.alone
def test_the_operator_says_what_it_would_do(field: Field) -> None:
    """At rest nothing; while a stop waits for the store, what it waits for and what comes next. No secret shows."""
    secret = "s3cr3t-" + field.namespace
    field.sandbox("coder", env=[{"name": "TOKEN", "value": secret}])
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    plan = _eventually(lambda: (found := _json(field, "plan", "session/quill"))["settled"] and found, "it settles")
    assert plan["steps"] == []
    assert plan["observed"]["sandbox"] == "present"
    assert [keeper["gateOpen"] for keeper in plan["observed"]["keepers"].values()] == [True]
    explained = _json(field, "explain", "quill")
    assert (explained["source"], explained["phase"], explained["waitsFor"]) == ("operator", "Ready", None)
    assert explained["conditions"] == []
    assert _json(field, "plan", "sandbox/coder")["settled"]
    assert _json(field, "explain", "sandbox/coder")["summary"] == "It takes sessions."

    with store_away():
        session.set_mode("Suspended")
        session.wait_phase("Stopping")
        plan = _eventually(
            lambda: (found := _json(field, "plan", "session/quill", "--timeout", "60s"))["steps"] and found, "steps"
        )
        explained = _json(field, "explain", "session/quill")
        assert explained["wished"] == "Suspended"
        assert explained["waitsFor"]
        assert [limit["limit"] for limit in explained["limits"]] == ["lifecycle.stopTimeoutSeconds"]
        text = _run(field, "explain", "session/quill").stdout.decode()
        assert "Waits for:" in text
        assert "It looks again in" in text
        assert secret not in json.dumps(plan) + json.dumps(explained) + text
    session.wait_phase("Suspended", 90)


def test_without_the_right_to_ask_status_alone_speaks(field: Field, tmp_path: Path) -> None:
    field.sandbox("coder")
    field.session("quill", "coder").wait_phase("Ready")
    kubeconfig = _reader(field, tmp_path)
    explained = _json(field, "explain", "session/quill", kubeconfig=kubeconfig)
    assert explained["source"] == "status"
    assert "pods" in explained["note"]
    assert explained["nextSteps"] is None
    done = _run(field, "plan", "session/quill", kubeconfig=kubeconfig)
    assert done.returncode == 5
    assert b"not allowed (403)" in done.stderr
    done = _run(field, "explain", "session/quill", "--operator-namespace", "default")
    assert b"no pod of it runs in namespace default" in done.stdout


def _reader(field: Field, folder: Path) -> Path:
    """A kubeconfig of somebody who may read our objects here, and nothing else anywhere."""
    kubectl, namespace = field.cluster.kubectl, field.namespace
    kubectl("create", "serviceaccount", "reader", "-n", namespace)
    role = ("--verb=get,list", "--resource=sandboxsessions,agentsandboxes", "-n", namespace)
    kubectl("create", "role", "reader", *role)
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader", "-n", namespace)
    token = kubectl("create", "token", "reader", "-n", namespace).strip()
    path = folder / "reader.kubeconfig"
    path.write_text(places.kubeconfig().read_text())
    done = subprocess.run(
        [
            *(str(places.cache() / "bin" / "kubectl"), "config", f"--kubeconfig={path}"),
            *("set-credentials", "reader", f"--token={token}"),
        ],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert done.returncode == 0
    context = field.cluster.kubectl("config", "current-context").strip()
    subprocess.run(
        [
            *(str(places.cache() / "bin" / "kubectl"), "config", f"--kubeconfig={path}"),
            *("set-context", context, "--user=reader"),
        ],
        capture_output=True,
        check=True,
        timeout=30,
    )
    return path


def test_a_sweep_looks_and_leaves_everything_alone(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    found = _json(field, "sweep", "--all")
    mine = [one for one in found["objects"] if one["namespace"] == field.namespace]
    assert {one["kind"] for one in mine} >= {"Pod", "NetworkPolicy", "ServiceAccount"}
    assert [one["name"] for one in mine if one["orphan"]] == []
    assert found["dryRun"] is True
    assert session.status()["phase"] == "Ready"


def test_it_is_a_plugin_of_kubectl(field: Field) -> None:
    field.sandbox("coder")
    field.session("quill", "coder")
    done = subprocess.run(
        ["kubectl", "sandhold", "session", "ls", "-n", field.namespace, "-o", "name"],
        env=_environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"sandboxsession.sandhold.dev/quill\n", done.stderr


def test_the_image_has_it_too(field: Field) -> None:
    pods = field.cluster.list("Pod", SYSTEM, "app.kubernetes.io/component=operator")
    said = field.cluster.kubectl(
        "exec", "-n", SYSTEM, pods[0]["metadata"]["name"], "-c", "operator", "--", "sandhold", "--version"
    )
    assert said.startswith("sandhold ")
