"""PID 1 of the agent container: the gate, the agent's environment, orphans, and the end."""

import json
import os
import signal
from pathlib import Path

import pytest

from testkit.keeper_pod import KeeperPod, until

# The agent's user may not enter the home of whoever runs the tests, and with it a virtual environment's interpreter.
PYTHON = "/usr/bin/python3"


def ended(pod: KeeperPod) -> dict[str, object]:
    until(lambda: pod.hint().get("state") == "Ended", "the agent has ended")
    return pod.hint()


def children_of(pid: int) -> list[int]:
    """Children of a process, whichever of its threads they belong to."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(child) for child in task.read_text().split()]
    return children


def processes_beside_init(pod: KeeperPod) -> list[int]:
    """Everything that descends from init: in its pid namespace every orphan does."""
    waiting, found = [pod.init_pid()], []
    while waiting:
        try:
            children = children_of(waiting.pop())
        except (FileNotFoundError, ProcessLookupError):
            continue  # gone meanwhile, and its children init's
        found += children
        waiting += children
    return found


def test_the_agents_first_instruction_never_runs_before_the_gate_opens(pod: KeeperPod) -> None:
    pod.start_init()
    challenge = pod.waiting_challenge()
    pod.write_gate("word.json", {"challenge": "0" * 32, "argv": ["touch", "ran"], "env": {}, "workingDir": "/"})
    pod.open_gate("touch", str(pod.workspace / "wrong"), challenge=challenge[::-1])
    assert pod.run("init", "ready").returncode == 1

    # Init takes words in their order, so once the last one was taken the wrong ones had their chance.
    pod.open_gate("touch", str(pod.workspace / "right"))
    assert ended(pod)["exitCode"] == 0
    assert [path.name for path in pod.workspace.iterdir()] == ["right"]


def test_nothing_of_the_agent_exists_while_init_waits(pod: KeeperPod) -> None:
    pod.start_init()
    pod.waiting_challenge()
    assert processes_beside_init(pod) == []


def test_ready_is_true_from_the_word_on_and_only_for_the_init_it_was_for(pod: KeeperPod) -> None:
    pod.start_init()
    first = pod.waiting_challenge()
    assert pod.run("init", "ready").returncode == 1
    pod.open_gate("sleep", "1000")
    until(lambda: pod.hint()["state"] == "Running", "the agent runs")
    assert pod.run("init", "ready").returncode == 0

    pod.stop_init()
    pod.start_init()
    assert pod.waiting_challenge(other_than=first) != first
    assert pod.run("init", "ready").returncode == 1


def test_an_init_that_was_started_again_needs_a_new_word(pod: KeeperPod) -> None:
    pod.start_init()
    first = pod.waiting_challenge()
    count = ["sh", "-c", "echo started >> starts; exec sleep 1000"]
    starts = pod.workspace / "starts"
    pod.open_gate(*count)
    # That it runs says init, as soon as there is a process: it may not have come to its first line.
    until(lambda: starts.exists() and starts.read_text() == "started\n", "the agent was started")
    pod.stop_init()

    pod.start_init()
    second = pod.waiting_challenge(other_than=first)
    assert json.loads((pod.gate / "word.json").read_text())["challenge"] == first
    pod.open_gate(*count, challenge=second)
    until(lambda: starts.read_text() == "started\nstarted\n", "the agent was started twice, not more")


def test_the_agents_environment_is_exactly_the_words(pod: KeeperPod) -> None:
    pod.start_init(LEAKED="from the image")
    pod.open_gate("cat", "/proc/self/environ", GREETING="hello=wörld\n", EMPTY="")
    assert ended(pod)["exitCode"] == 0
    seen = (pod.base / "agent.log").read_bytes().rstrip(b"\0").split(b"\0")
    assert sorted(seen) == [b"EMPTY=", "GREETING=hello=wörld\n".encode(), b"PATH=/usr/local/bin:/usr/bin:/bin"]


def test_the_agent_leads_a_group_of_its_own_in_inits_session_and_starts_in_its_folder(pod: KeeperPod) -> None:
    """A group in a session of its own is an orphaned one, which gVisor hangs up when somebody exits during a freeze."""
    pod.start_init()
    script = "import os; print(os.getpgid(0) == os.getpid(), os.getsid(0) == os.getsid(1), os.getcwd())"
    pod.open_gate(PYTHON, "-c", script)
    ended(pod)
    assert (pod.base / "agent.log").read_text() == f"True True {pod.workspace}\n"


def test_an_empty_command_idles_until_it_is_ended(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate()
    until(lambda: pod.hint()["state"] == "Running", "init idles")
    assert pod.run("init", "ready").returncode == 0
    pod.order_end(5)
    assert ended(pod)["exitCode"] == 0
    assert pod.init is not None
    assert pod.init.poll() is None


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (["no-such-command"], 127, "was not found in PATH"),
        (["/no/such/file"], 127, "no such file"),
        (["./not-executable"], 126, "permission denied"),
        (["/tmp"], 126, "permission denied"),  # noqa: S108
    ],
)
def test_a_command_that_cannot_start_is_ended_with_the_shells_codes(
    pod: KeeperPod, argv: list[str], code: int, reason: str
) -> None:
    (pod.workspace / "not-executable").write_text("#!/bin/sh\n")
    pod.start_init()
    pod.open_gate(*argv)
    hint = ended(pod)
    assert hint["exitCode"] == code
    assert reason in str(hint["message"])


def test_a_working_directory_that_is_not_there_is_said(pod: KeeperPod) -> None:
    pod.start_init()
    word = {"challenge": pod.waiting_challenge(), "argv": ["/bin/true"], "env": {}, "workingDir": "/nowhere"}
    pod.write_gate("word.json", word)
    hint = ended(pod)
    assert hint["exitCode"] == 126
    assert 'workingDir "/nowhere"' in str(hint["message"])


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_how_the_agent_ended_is_told_and_init_stays(pod: KeeperPod, script: str, code: int) -> None:
    pod.start_init()
    pod.open_gate("sh", "-c", script)
    assert ended(pod)["exitCode"] == code
    assert pod.init is not None
    assert pod.init.poll() is None


def test_what_an_agent_leaves_behind_ends_with_it(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate("sh", "-c", "(trap '' TERM; echo $$ > child; sleep 1000) & while ! [ -s child ]; do :; done; exit 3")
    assert ended(pod)["exitCode"] == 3
    assert processes_beside_init(pod) == []


def test_orphans_are_reaped_while_the_agent_runs(pod: KeeperPod) -> None:
    pod.start_init()
    orphans = "for i in 1 2 3 4 5; do (sh -c 'exit 1' &); done; touch made; exec sleep 1000"
    pod.open_gate("sh", "-c", orphans)
    until((pod.workspace / "made").exists, "the orphans were made")
    until(lambda: len(children_of(pod.init_pid())) == 1, "only the agent is left of init's children")


def test_an_ordered_end_lets_the_agent_finish(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate("sh", "-c", "trap 'echo saved > saved; exit 5' TERM; touch up; while :; do sleep 0.05; done")
    until((pod.workspace / "up").exists, "the agent is up")
    pod.order_end(30)
    assert ended(pod)["exitCode"] == 5
    assert (pod.workspace / "saved").exists()


STUBBORN = """
import os, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
open("up", "a").write("x")
while True:
    signal.pause()
"""


def test_an_agent_that_ignores_sigterm_is_killed_with_everything_it_started(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate(PYTHON, "-c", STUBBORN)
    until(lambda: (pod.workspace / "up").exists() and len((pod.workspace / "up").read_text()) == 8, "all are up")
    pod.order_end(1)
    assert ended(pod)["exitCode"] == 137
    assert processes_beside_init(pod) == []


def test_a_stopped_agent_gets_its_chance(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate("sh", "-c", "trap 'exit 6' TERM; touch up; kill -STOP $$; while :; do sleep 0.05; done")
    until((pod.workspace / "up").exists, "the agent is up")
    pod.order_end(30)
    assert ended(pod)["exitCode"] == 6


BOMB = """
import os, signal, resource
signal.signal(signal.SIGTERM, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))
while True:
    try:
        if os.fork() == 0:
            open("up", "a").write("x")
    except OSError:
        pass
"""


def test_a_fork_bomb_is_ended() -> None:
    # A user of its own: the limit counts all processes of a user on this machine.
    with KeeperPod(uid=23417) as pod:
        pod.start_init()
        pod.open_gate(PYTHON, "-c", BOMB)
        full = pod.workspace / "up"
        until(lambda: full.exists() and len(full.read_text()) > 150, "the bomb is full")
        pod.order_end(0)
        assert ended(pod)["exitCode"] == 137
        assert processes_beside_init(pod) == []


def test_an_end_that_is_not_for_this_init_is_ignored(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate("sleep", "1000")
    until(lambda: pod.hint()["state"] == "Running", "the agent runs")
    pod.write_gate("orders.json", {"challenges": ["0" * 32], "end": {"graceSeconds": 0}})
    pod.write_gate("orders.json", {"challenges": [], "end": {"graceSeconds": 0}})
    pod.order_end(0)
    assert ended(pod)["exitCode"] == 137, "only the last one ended it: a grace of 0 kills at once"


def test_an_end_before_the_word_keeps_the_agent_from_starting(pod: KeeperPod) -> None:
    pod.start_init()
    challenge = pod.waiting_challenge()
    pod.order_end(5)
    assert ended(pod)["exitCode"] == 0
    pod.open_gate("touch", "ran", challenge=challenge)
    pod.order_end(0)
    os.kill(pod.init_pid(), signal.SIGTERM)
    assert pod.init is not None
    pod.init.wait(timeout=10)
    assert list(pod.workspace.iterdir()) == []


def test_sigterm_ends_a_stubborn_agent_within_about_a_second_and_init_with_it(pod: KeeperPod) -> None:
    pod.start_init()
    pod.open_gate(PYTHON, "-c", STUBBORN)
    until(lambda: (pod.workspace / "up").exists() and len((pod.workspace / "up").read_text()) == 8, "all are up")
    os.kill(pod.init_pid(), signal.SIGTERM)
    assert pod.init is not None
    assert pod.init.wait(timeout=5) == 0
    assert pod.hint()["state"] == "Ended"


def test_the_agent_can_neither_read_nor_end_init(pod: KeeperPod) -> None:
    pod.start_init()
    attack = """
import os, signal, sys
for name in "KILL QUIT ABRT INT HUP SEGV STOP TSTP".split():
    os.kill(1, getattr(signal, "SIG" + name))
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/1/{name}", "rb").read(1)
        print("read", name)
    except OSError as error:
        print(name, error.strerror)
"""
    pod.open_gate(PYTHON, "-c", attack)
    assert ended(pod)["exitCode"] == 0
    assert (pod.base / "agent.log").read_text().splitlines() == [
        "environ Permission denied",
        "mem Permission denied",
        "maps Permission denied",
    ]


def test_init_refuses_to_be_anything_but_pid_1(pod: KeeperPod) -> None:
    refused = pod.run("init")
    assert refused.returncode == 1
    assert "PID 1" in refused.stderr


def test_a_hint_that_cannot_be_written_does_not_stop_init(pod: KeeperPod) -> None:
    (pod.hints / "init.json").mkdir()
    (pod.hints / "init.json" / "in-the-way").touch()
    pod.start_init()
    pod.init_pid()
    (pod.hints / "init.json" / "in-the-way").unlink()
    (pod.hints / "init.json").rmdir()
    pod.open_gate("true")
    assert ended(pod)["exitCode"] == 0
