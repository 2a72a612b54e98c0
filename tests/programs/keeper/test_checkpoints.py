"""Checkpoints: what changed is stored by the keeper itself, what did not is not sent, an order comes after."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from testkit import trees
from testkit.fake_mover import FakeMover
from testkit.keeper_pod import AGENT_UID, KeeperPod, eventually
from testkit.keeper_stories import archived, guard, keep, opened, order_restore, restored
from testkit.trees import ODD

INTERVAL = 1
FAILED = {"type": "failed", "code": "snapshot_store_unavailable", "message": "down", "retryable": True}
MOST_CHECKPOINTS = 5
LONGER_THAN_YOUNG = 2.1
"""A change has to be 2 s old to be told from one that follows it."""


async def is_quiet(mover: FakeMover, seconds: float = 2.2 * INTERVAL) -> bool:
    """Whether nobody calls to send anything, and no archive is reported, for several intervals."""
    before = len(mover.hellos), mover.report["archive"]
    await asyncio.sleep(seconds)
    return (len(mover.hellos), mover.report["archive"]) == before


async def stored(mover: FakeMover, more_than: int = 0) -> dict[str, object]:
    """The report of a checkpoint that is stored under a higher number."""
    report = await mover.until_report(
        lambda r: r["archive"] and r["archive"]["state"] == "Stored" and r["archive"]["sequence"] > more_than
    )
    return dict(report["archive"])


async def settled(mover: FakeMover, pod: KeeperPod) -> None:
    """What is there now is stored, too old to be doubted, and makes no traffic any more."""
    newest = max(path.lstat().st_ctime_ns for path in [pod.workspace, *pod.workspace.rglob("*")])
    await eventually(lambda: _clock_ns() - newest > LONGER_THAN_YOUNG * 1e9, "nothing is young any more")
    for _ in range(MOST_CHECKPOINTS):
        reports = len(mover.reports)
        if await is_quiet(mover) and len(mover.reports) == reports:
            return
    raise AssertionError("what did not change is sent or reported again and again")


def _clock_ns() -> int:
    probe = Path("/tmp/.sandhold-clock")  # noqa: S108  # any file: its time is the clock of files
    probe.touch()
    return probe.stat().st_mtime_ns


async def test_what_changed_is_stored_under_the_movers_number_and_what_did_not_makes_no_traffic(
    pod: KeeperPod, mover: FakeMover
) -> None:
    mover.highest = 41
    await opened(pod, mover)
    (pod.workspace / "work").write_text("of the agent")
    await guard(mover, interval=INTERVAL)
    await keep(mover, final=False)
    archive = await stored(mover)
    assert archive["sequence"] == 42
    assert archive["final"] is False
    assert mover.received[0].grant == "standing-checkpoint"
    assert json.loads(mover.received[0].records)["path"] == "work"

    await settled(mover, pod)
    (pod.workspace / "work").write_text("OF THE AGENT")
    await stored(mover, mover.highest)


async def test_a_workspace_that_was_restored_is_not_sent_back_unless_it_changed(mover: FakeMover) -> None:
    with KeeperPod() as one:
        await opened(one, mover)
        trees.build(ODD, one.workspace, AGENT_UID)
        snapshot = (await archived(mover)).snapshot(1, 1)
        one.stop_keeper()
    mover.received.clear()
    with KeeperPod() as other:
        await restored(other, mover, snapshot)
        (other.hints / "init.json").write_text(json.dumps({"challenge": "a" * 32, "state": "Waiting", "exitCode": 0}))
        await mover.until_report(lambda r: r["gate"]["challenge"])
        await mover.order(verb="open", challenge="a" * 32, word={"argv": [], "env": {}, "workingDir": "/"})
        await mover.until_report(lambda r: r["gate"]["opened"])
        await keep(mover, final=False)
        await guard(mover, interval=INTERVAL)
        assert await is_quiet(mover)
        assert mover.received == []
        (other.workspace / "work").write_text("new")
        await mover.until(lambda: mover.received)


async def test_folders_that_are_closed_to_everybody_do_not_look_changed_for_ever(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await opened(pod, mover)
    closed = pod.workspace / "closed"
    closed.mkdir()
    (closed / "file").write_text("x")
    for path, mode in ((closed / "file", 0), (closed, 0)):
        os.chown(path, AGENT_UID, AGENT_UID)
        path.chmod(mode)
    await guard(mover, interval=INTERVAL)
    await keep(mover, final=False)
    await stored(mover)
    await settled(mover, pod)
    assert mover.received[-1].done["files"] == 2
    assert stat.S_IMODE(closed.stat().st_mode) == 0


@pytest.mark.parametrize("seconds", [None, -10], ids=["none", "expired"])
async def test_without_a_grant_that_holds_there_is_no_checkpoint_and_one_that_comes_is_used_at_once(
    pod: KeeperPod, mover: FakeMover, seconds: int | None
) -> None:
    await opened(pod, mover)
    (pod.workspace / "work").write_text("x")
    if seconds is not None:
        await keep(mover, final=False, seconds=seconds)
    await keep(mover, final=True)
    await guard(mover, interval=INTERVAL)
    assert await is_quiet(mover)
    assert mover.report["archive"] is None
    await keep(mover, final=False)
    await stored(mover)
    assert {hello.grant for hello in mover.hellos} == {"", "standing-checkpoint"}


async def test_without_an_interval_there_is_no_checkpoint(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    (pod.workspace / "work").write_text("x")
    await keep(mover, final=False)
    await guard(mover, size=1 << 40, limit=1 << 41)
    assert await is_quiet(mover)


async def test_a_checkpoint_that_failed_is_reported_and_tried_again(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    (pod.workspace / "work").write_text("x")
    mover.verdict = lambda _: FAILED
    await keep(mover, final=False)
    await guard(mover, interval=INTERVAL)
    report = await mover.until_report(lambda r: r["archive"] and r["archive"]["state"] == "Failed")
    assert report["archive"]["code"] == "snapshot_store_unavailable"
    assert report["archive"]["final"] is False
    await mover.until(lambda: len(mover.received) >= 2)
    mover.verdict = mover.stored
    await stored(mover)


async def test_checkpoints_go_on_while_the_operator_says_nothing_and_the_keeper_was_restarted(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await opened(pod, mover)
    await keep(mover, final=False)
    await keep(mover, final=True)
    await guard(mover, interval=INTERVAL)
    before = mover.report
    await stored(mover)
    grants = pod.private / "grants.json"
    assert stat.S_IMODE(grants.stat().st_mode) == 0o600
    assert "standing" not in pod.keeper_log()
    pod.stop_keeper()
    (pod.workspace / "work").write_text("x")
    report = await mover.meet(pod.start_keeper)
    assert report["kept"] == before["kept"]
    assert report["guard"] == before["guard"]
    await stored(mover, report["archive"]["sequence"])
    assert mover.received[-1].done["files"] == 1


@pytest.mark.parametrize("how", ["end", "ended"])
async def test_there_are_no_checkpoints_when_the_end_has_come(pod: KeeperPod, mover: FakeMover, how: str) -> None:
    await opened(pod, mover)
    await keep(mover, final=False)
    if how == "end":
        await mover.order(verb="end", graceSeconds=1)
        await eventually((pod.gate / "orders.json").exists, "the end is passed on")
    else:
        hint = {"challenge": "a" * 32, "state": "Ended", "exitCode": 0}
        (pod.hints / "init.json").write_text(json.dumps(hint))
        await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
    await guard(mover, interval=INTERVAL)
    (pod.workspace / "work").write_text("x")
    assert await is_quiet(mover)


async def test_an_ordered_archive_waits_for_the_checkpoint_that_runs_and_only_the_last_one_counts(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await opened(pod, mover)
    (pod.workspace / "work").write_text("x")
    mover.hold_verdicts = asyncio.Event()
    await keep(mover, final=False)
    await guard(mover, interval=INTERVAL)
    await mover.until(lambda: mover.received)
    await mover.order(verb="archive", sequence=1, final=True, grant="first")
    await mover.order(verb="end", graceSeconds=1)
    await mover.order(verb="archive", sequence=1, final=True, grant="second")
    await eventually((pod.gate / "orders.json").exists, "the orders before the last were taken")
    (pod.workspace / "late").write_text("x")
    mover.hold_verdicts.set()
    report = await mover.until_report(
        lambda r: r["archive"] and r["archive"]["final"] and r["archive"]["state"] == "Stored"
    )
    assert report["archive"]["sequence"] == 2
    assert [received.grant for received in mover.received] == ["standing-checkpoint", "second"]
    assert mover.received[-1].done["files"] == 2

    await mover.order(verb="archive", sequence=2, final=True, grant="again")
    await mover.order(verb="keep", final=False, expires=1, maxBytes=0, grant="told after it")
    await mover.until_report(lambda r: r["kept"]["checkpoint"] == 1)
    assert len(mover.received) == 2, "a final one of that number is stored"


async def test_a_stored_checkpoint_does_not_keep_an_order_of_its_number_from_being_done(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await opened(pod, mover)
    await keep(mover, final=False)
    await guard(mover, interval=INTERVAL)
    await stored(mover)
    await guard(mover, interval=0)
    await mover.order(verb="archive", sequence=1, final=True, grant="ordered")
    report = await mover.until_report(
        lambda r: r["archive"] and r["archive"]["final"] and r["archive"]["state"] == "Stored"
    )
    assert report["archive"]["sequence"] > 1


async def test_orders_that_are_out_of_range_change_nothing(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    for order in (
        {"verb": "keep", "final": False, "expires": -1, "maxBytes": 0, "grant": "g"},
        {"verb": "keep", "final": False, "expires": 1, "maxBytes": 0, "grant": "g" * 7000},
        {"verb": "keep", "final": "yes", "expires": 1, "maxBytes": 0, "grant": "g"},
        {"verb": "guard", "sizeBytes": -1, "limitBytes": 0, "intervalSeconds": 0},
        {"verb": "guard", "sizeBytes": 1, "limitBytes": 0, "intervalSeconds": 1 << 40},
    ):
        await mover.order(**order)
    await keep(mover, final=True)
    assert mover.report["kept"]["checkpoint"] == 0
    assert mover.report["guard"] is None
    assert "ggg" not in pod.keeper_log()


async def test_a_warm_pod_may_be_told_before_it_is_prepared(pod: KeeperPod, mover: FakeMover) -> None:
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await keep(mover, final=False)
    await keep(mover, final=True)
    await guard(mover, size=1, limit=2, interval=INTERVAL)
    assert await is_quiet(mover)
    await order_restore(mover)
    report = await mover.until_report(lambda r: r["workspace"]["state"] == "Failed")
    assert report["archive"] is None
