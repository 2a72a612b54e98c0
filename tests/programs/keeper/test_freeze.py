"""A freeze: init stops everybody but itself for as long as its orders say so, and whoever is to end goes on."""

import os
import signal
from pathlib import Path

import pytest

from testkit.keeper_pod import KeeperPod, descendants, state_of, until

PYTHON = "/usr/bin/python3"
COUNTER = "trap 'exit 6' TERM; while :; do echo x >> ticks; sleep 0.01; done"
STUBBORN = "trap '' TERM; while :; do echo x >> ticks; sleep 0.01; done"


def order(pod: KeeperPod, *, freeze: bool) -> None:
    pod.write_gate("orders.json", {"challenges": [pod.hint()["challenge"]], "freeze": freeze})


def is_frozen(pod: KeeperPod) -> bool:
    return bool(pod.hint().get("frozen", False))


def ticks(pod: KeeperPod) -> int:
    try:
        return (pod.workspace / "ticks").stat().st_size
    except FileNotFoundError:
        return 0


def ticking(pod: KeeperPod, script: str = COUNTER) -> None:
    """An agent that works, visibly."""
    pod.start_init()
    pod.open_gate("sh", "-c", script)
    goes_on(pod)


def goes_on(pod: KeeperPod) -> None:
    before = ticks(pod)
    until(lambda: ticks(pod) > before, "the agent works")


def freeze(pod: KeeperPod) -> None:
    order(pod, freeze=True)
    until(lambda: is_frozen(pod), "everybody is stopped")


def ended(pod: KeeperPod) -> dict[str, object]:
    until(lambda: pod.hint().get("state") == "Ended", "the agent has ended")
    return pod.hint()


def test_who_is_frozen_does_nothing_until_thawed(pod: KeeperPod) -> None:
    ticking(pod)
    freeze(pod)
    frozen_at = ticks(pod)
    # A shell in vfork waits in the kernel for its child, which is stopped; one that is stopped reaps nobody.
    assert {state_of(pid) for pid in pod.agents()} <= {"T", "D", "Z"}
    assert pod.run("init", "ready").returncode == 0
    assert ticks(pod) == frozen_at
    assert pod.hint()["state"] == "Running"

    order(pod, freeze=False)
    until(lambda: not is_frozen(pod), "init says that they go on")
    goes_on(pod)


def test_whoever_comes_into_a_frozen_container_is_stopped_too(pod: KeeperPod) -> None:
    ticking(pod)
    freeze(pod)
    enter = ["nsenter", f"--target={pod.init_pid()}", "--pid", "--", "setpriv", f"--reuid={pod.uid}", "--clear-groups"]
    newcomer = os.posix_spawnp("nsenter", [*enter, "sleep", "1000"], os.environ)

    def comer() -> list[int]:
        return [pid for pid in descendants(newcomer) if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]

    until(lambda: comer() and state_of(comer()[0]) == "T", "the newcomer is stopped")
    order(pod, freeze=False)
    until(lambda: state_of(comer()[0]) == "S", "the newcomer goes on")
    os.kill(newcomer, signal.SIGCONT)  # it stopped itself when its child was stopped
    pod.order_end(0)
    os.waitpid(newcomer, 0)
    ended(pod)


BOMB = """
import os, signal, resource
resource.setrlimit(resource.RLIMIT_NPROC, (150, 150))
open("up", "w").close()
while True:
    try:
        if os.fork() == 0:
            for _ in range(3):
                try:
                    os.fork()
                except OSError:
                    pass
            os._exit(0)
    except OSError:
        pass
    try:
        os.waitpid(-1, os.WNOHANG)
    except OSError:
        pass
    open("ticks", "a").write("x")
"""


def test_a_fork_bomb_is_frozen() -> None:
    # A user of its own: the limit counts all processes of a user on this machine.
    with KeeperPod(uid=23419) as pod:
        pod.start_init()
        pod.open_gate(PYTHON, "-c", BOMB)
        until(lambda: ticks(pod) > 50, "the bomb goes off")
        freeze(pod)
        there = pod.agents()
        frozen_at = ticks(pod)
        assert {state_of(pid) for pid in there} <= {"T", "Z"}
        assert pod.agents() == there
        assert ticks(pod) == frozen_at
        order(pod, freeze=False)
        goes_on(pod)
        pod.order_end(0)
        assert ended(pod)["exitCode"] == 137


def test_an_end_reaches_whoever_is_frozen(pod: KeeperPod) -> None:
    ticking(pod)
    freeze(pod)
    pod.order_end(30)
    assert ended(pod)["exitCode"] == 6, "it was let go on, and could obey"
    assert not is_frozen(pod)


def test_orders_that_say_both_mean_the_end(pod: KeeperPod) -> None:
    ticking(pod, STUBBORN)
    orders = {"challenges": [pod.hint()["challenge"]], "end": {"graceSeconds": 1}, "freeze": True}
    pod.write_gate("orders.json", orders)
    assert ended(pod)["exitCode"] == 137


@pytest.mark.parametrize("script", [COUNTER, STUBBORN])
def test_sigterm_ends_whoever_is_frozen_and_init(pod: KeeperPod, script: str) -> None:
    ticking(pod, script)
    freeze(pod)
    os.kill(pod.init_pid(), signal.SIGTERM)
    assert pod.init is not None
    assert pod.init.wait(timeout=5) == 0
    assert pod.hint()["state"] == "Ended"
    assert pod.hint()["exitCode"] == (6 if script is COUNTER else 137)


def test_an_agent_that_is_killed_while_frozen_has_ended(pod: KeeperPod) -> None:
    """The kernel's killer for want of memory does not ask."""
    ticking(pod)
    freeze(pod)
    os.kill(min(pod.agents()), signal.SIGKILL)
    hint = ended(pod)
    assert hint["exitCode"] == 137
    assert not hint.get("frozen", False)


def test_the_freeze_of_the_init_before_is_not_the_new_ones(pod: KeeperPod) -> None:
    ticking(pod)
    first = pod.hint()["challenge"]
    freeze(pod)
    pod.stop_init()
    pod.start_init()
    second = pod.waiting_challenge(other_than=first)
    assert not is_frozen(pod)
    pod.open_gate("sh", "-c", COUNTER, challenge=second)
    goes_on(pod)


def test_a_frozen_init_takes_no_word_until_it_is_thawed(pod: KeeperPod) -> None:
    pod.start_init()
    challenge = pod.waiting_challenge()
    freeze(pod)
    pod.open_gate("touch", "early", challenge=challenge)
    pod.open_gate("touch", "right", challenge=challenge)
    assert pod.hint()["state"] == "Waiting"
    order(pod, freeze=False)
    assert ended(pod)["exitCode"] == 0
    assert [path.name for path in pod.workspace.iterdir()] == ["right"]


def test_a_freeze_for_somebody_else_is_ignored(pod: KeeperPod) -> None:
    ticking(pod)
    pod.write_gate("orders.json", {"challenges": ["0" * 32], "freeze": True})
    pod.write_gate("orders.json", {"freeze": True})
    goes_on(pod)
    freeze(pod)  # taken, so the ones before it had their chance
    order(pod, freeze=False)
    goes_on(pod)


def test_a_freeze_after_the_end_changes_nothing(pod: KeeperPod) -> None:
    ticking(pod)
    pod.order_end(5)
    ended(pod)
    order(pod, freeze=True)
    os.kill(pod.init_pid(), signal.SIGTERM)
    assert pod.init is not None
    assert pod.init.wait(timeout=5) == 0
    assert not is_frozen(pod)
