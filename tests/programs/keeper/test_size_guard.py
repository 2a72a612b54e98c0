"""The size guard: a checkpoint when it gets tight, a freeze for one when it is full, one that stays near the end."""

import asyncio
import json
import os
import signal
import stat
from typing import Any

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import AGENT_UID, KeeperPod, eventually, state_of
from testkit.keeper_stories import at_work, guard, keep, opened, waiting_init, word
from testkit.trees import MIB

SIZE, LIMIT = 10 * MIB, 20 * MIB
LOOK = 2.0
"""How often a small workspace is measured."""
WORKS = "trap 'exit 6' TERM; while :; do echo x >> ticks; sleep 0.01; done"


def fill(pod: KeeperPod, mib: float) -> None:
    (pod.workspace / "data").write_bytes(b"\1" * int(mib * MIB))


def ticks(pod: KeeperPod) -> int:
    return (pod.workspace / "ticks").stat().st_size


async def goes_on(pod: KeeperPod) -> None:
    before = ticks(pod)
    await eventually(lambda: ticks(pod) > before, "the agent works")


async def at_level(mover: FakeMover, level: str) -> dict[str, Any]:
    report = await mover.until_report(lambda r: r["guard"]["level"] == level)
    return dict(report["guard"])


async def guarded(pod: KeeperPod, mover: FakeMover, *, grants: bool = True) -> str:
    challenge = await at_work(pod, mover, "sh", "-c", WORKS)
    await eventually((pod.workspace / "ticks").exists, "the agent works")
    if grants:
        await keep(mover, final=False)
        await keep(mover, final=True)
    await guard(mover, size=SIZE, limit=LIMIT)
    return challenge


async def test_a_workspace_that_gets_tight_has_a_checkpoint(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover)
    fill(pod, 8.5)
    state = await at_level(mover, "High")
    assert 8 * MIB < state["usedBytes"] < 9 * MIB
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Stored")
    assert not mover.report["archive"]["final"]
    assert not any((report["guard"] or {}).get("frozen") for report in mover.reports)
    fill(pod, 1)
    await asyncio.sleep(2 * LOOK)
    assert mover.report["guard"]["level"] == "High", (
        "each change is written by the operator: no agent makes many of them"
    )
    pod.stop_keeper()
    await mover.meet(pod.start_keeper)
    await at_level(mover, "Normal")  # who was not there when it rose does not wait for its time to be over
    assert len(mover.received) == 1


async def test_a_full_one_is_stored_while_nobody_works_and_goes_on(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover)
    mover.hold_verdicts = asyncio.Event()
    fill(pod, 11)
    await at_level(mover, "Full")
    await mover.until_report(lambda r: r["guard"]["frozen"])
    await mover.until(lambda: mover.received)
    before = ticks(pod)
    assert {state_of(pid) for pid in pod.agents()} <= {"T", "D", "Z"}
    assert ticks(pod) == before
    mover.hold_verdicts.set()
    await mover.until_report(lambda r: not r["guard"]["frozen"])
    await goes_on(pod)
    assert mover.report["guard"]["level"] == "Full"
    assert mover.report["archive"]["state"] == "Stored"
    assert len(mover.received) == 1


async def test_near_its_limit_everybody_stays_stopped_until_the_end(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover)
    fill(pod, 19)
    await at_level(mover, "Critical")
    await mover.until_report(lambda r: r["guard"]["frozen"] and (r["archive"] or {}).get("state") == "Stored")
    before = ticks(pod)
    assert {state_of(pid) for pid in pod.agents()} <= {"T", "D", "Z"}
    assert ticks(pod) == before

    await mover.order(verb="end", graceSeconds=20)
    report = await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
    assert report["agent"]["exitCode"] == 6, "it could obey"
    assert report["guard"]["level"] == "Critical"
    assert not report["guard"]["frozen"]


async def test_without_a_grant_nobody_is_frozen_for_a_checkpoint(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover, grants=False)
    fill(pod, 11)
    await at_level(mover, "Full")
    fill(pod, 19)
    await at_level(mover, "Critical")
    await mover.until_report(lambda r: r["guard"]["frozen"])
    assert not any(r["guard"]["frozen"] for r in mover.reports if r["guard"] and r["guard"]["level"] == "Full")
    assert mover.received == []


async def test_a_keeper_that_restarts_near_the_limit_keeps_everybody_stopped_and_a_larger_limit_frees_them(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await guarded(pod, mover, grants=False)
    fill(pod, 19)
    await mover.until_report(lambda r: r["guard"]["frozen"])
    pod.stop_keeper()
    await mover.meet(pod.start_keeper)
    report = await mover.until_report(lambda r: r["guard"]["frozen"])
    assert report["guard"]["level"] == "Critical"
    before = ticks(pod)
    assert {state_of(pid) for pid in pod.agents()} <= {"T", "D", "Z"}
    assert ticks(pod) == before

    await guard(mover, size=SIZE, limit=100 * MIB)
    await at_level(mover, "Full")
    await goes_on(pod)


async def test_a_keeper_that_restarts_during_a_checkpoint_of_a_full_one_lets_everybody_go_on(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await guarded(pod, mover)
    mover.hold_verdicts = asyncio.Event()
    fill(pod, 11)
    await mover.until_report(lambda r: r["guard"]["frozen"])
    pod.stop_keeper()
    mover.hold_verdicts.set()
    await mover.meet(pod.start_keeper)
    await mover.until_report(lambda r: not r["guard"]["frozen"])
    await goes_on(pod)
    assert mover.report["guard"]["level"] == "Full"


async def test_an_init_that_restarts_near_the_limit_starts_nobody_until_there_is_room(
    pod: KeeperPod, mover: FakeMover
) -> None:
    first = await guarded(pod, mover, grants=False)
    fill(pod, 19)
    await mover.until_report(lambda r: r["guard"]["frozen"])
    pod.stop_init()
    pod.start_init()
    second = await waiting_init(mover, other_than=first)
    await mover.until_report(lambda r: r["guard"]["frozen"] and r["gate"]["challenge"] == second)
    await mover.order(verb="open", challenge=second, word=word(pod, "touch", "started"))
    await mover.until_report(lambda r: r["gate"]["opened"] == second)
    assert mover.report["agent"]["state"] == "Waiting"
    assert not (pod.workspace / "started").exists()
    fill(pod, 1)
    await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
    assert (pod.workspace / "started").exists()


async def test_a_freeze_that_cannot_be_passed_on_is_passed_on_later(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover, grants=False)
    (pod.gate / "orders.json").mkdir()
    fill(pod, 19)
    await at_level(mover, "Critical")
    assert not mover.report["guard"]["frozen"]
    (pod.gate / "orders.json").rmdir()
    await mover.until_report(lambda r: r["guard"]["frozen"])


async def test_an_init_that_does_not_freeze_hinders_neither_the_checkpoint_nor_the_guard(
    pod: KeeperPod, mover: FakeMover
) -> None:
    """Under gVisor an agent can stop init."""
    await opened(pod, mover)
    await keep(mover, final=False)
    mover.hold_verdicts = asyncio.Event()
    await guard(mover, size=SIZE, limit=LIMIT)
    fill(pod, 11)
    await at_level(mover, "Full")
    await mover.until(lambda: mover.received)
    fill(pod, 19)
    await at_level(mover, "Critical")
    assert json.loads((pod.gate / "orders.json").read_text())["freeze"] is True
    mover.hold_verdicts.set()


async def test_leaving_ends_whoever_is_stopped(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover)
    fill(pod, 19)
    await mover.until_report(lambda r: r["guard"]["frozen"])
    assert pod.run("leave").returncode == 0
    report = await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
    assert report["agent"]["exitCode"] == 6
    await mover.until_report(lambda r: r["archive"]["final"] and r["archive"]["state"] == "Stored")
    assert pod.stop_keeper(signal.SIGTERM) == 0


async def test_what_is_hidden_in_a_closed_folder_counts_too(pod: KeeperPod, mover: FakeMover) -> None:
    await guarded(pod, mover, grants=False)
    closed = pod.workspace / "closed"
    closed.mkdir()
    (closed / "data").write_bytes(b"\1" * 9 * MIB)
    os.chown(closed, AGENT_UID, AGENT_UID)
    closed.chmod(0)
    await at_level(mover, "High")
    await asyncio.sleep(2 * LOOK)
    assert mover.report["guard"]["level"] == "High", "it is remembered while nobody looks"
    assert stat.S_IMODE(closed.stat().st_mode) == 0
