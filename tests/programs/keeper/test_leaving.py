"""The end of a pod that nobody ordered: the keeper ends the agent and stores what it leaves, while there is time."""

import asyncio
import json
import signal
from typing import Any

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod, eventually
from testkit.keeper_stories import archived, at_work, guard, keep, opened, ready

FAILED = {"type": "failed", "code": "snapshot_store_unavailable", "message": "down", "retryable": True}
HOPELESS = {"type": "failed", "code": "snapshot_too_large", "message": "no", "retryable": False}
SAVES = "trap 'echo saved > saved; exit 5' TERM; touch up; while :; do sleep 0.05; done"


async def stored_final(mover: FakeMover) -> dict[str, Any]:
    report = await mover.until_report(
        lambda r: r["archive"] and r["archive"]["final"] and r["archive"]["state"] == "Stored"
    )
    return dict(report)


def leave(pod: KeeperPod) -> None:
    left = pod.run("leave")
    assert (left.returncode, left.stdout, left.stderr) == (0, "", "")


def hint(pod: KeeperPod, state: str) -> None:
    (pod.hints / "init.json").write_text(json.dumps({"challenge": "a" * 32, "state": state, "exitCode": 0}))


async def test_leaving_ends_the_agent_and_stores_what_it_left(pod: KeeperPod, mover: FakeMover) -> None:
    await at_work(pod, mover, "sh", "-c", SAVES)
    await keep(mover, final=True)
    await eventually((pod.workspace / "up").exists, "the agent is up")
    leave(pod)
    report = await stored_final(mover)
    assert report["agent"] == {"state": "Ended", "exitCode": 5, "message": ""}
    assert [received.grant for received in mover.received] == ["standing-final"]
    assert mover.received[0].done["files"] == 2
    assert pod.stop_keeper(signal.SIGTERM) == 0
    assert len(mover.received) == 1


async def test_leaving_gives_up_a_checkpoint_for_the_archive_that_counts(pod: KeeperPod, mover: FakeMover) -> None:
    await at_work(pod, mover, "sh", "-c", SAVES)
    await eventually((pod.workspace / "up").exists, "the agent is up")
    await keep(mover, final=False)
    await keep(mover, final=True)
    mover.hold_verdicts = asyncio.Event()
    await guard(mover, interval=1)
    await mover.until(lambda: mover.received)
    leave(pod)
    await mover.until(lambda: len(mover.received) == 2)
    assert mover.received[1].grant == "standing-final"
    assert mover.received[1].done["files"] == 2
    mover.hold_verdicts.set()
    await stored_final(mover)


async def test_a_final_archive_is_tried_until_it_is_stored(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    hint(pod, "Ended")
    verdicts: list[dict[str, Any]] = [FAILED, {"type": "nonsense"}, FAILED]
    mover.verdict = lambda received: verdicts.pop(0) if verdicts else mover.stored(received)
    leave(pod)
    await stored_final(mover)
    assert len(mover.received) == 4


async def test_a_mover_that_is_away_is_waited_for_also_after_sigterm(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    hint(pod, "Ended")
    await mover.stop()
    leave(pod)
    await eventually(lambda: "archive 1:" in pod.keeper_log(), "the keeper has tried")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await mover.start()
    await mover.until(lambda: mover.received)
    await eventually(pod.has_ended, "the keeper has ended")


async def test_what_the_mover_calls_hopeless_is_not_tried_again(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    hint(pod, "Ended")
    mover.verdict = lambda _: HOPELESS
    leave(pod)
    report = await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Failed")
    assert report["archive"]["code"] == "snapshot_too_large"
    assert report["archive"]["final"] is True
    mover.verdict = mover.stored
    assert (await archived(mover)).grant == "archive-1", "the next one is the order's"


async def test_without_a_grant_an_order_may_still_come(pod: KeeperPod, mover: FakeMover) -> None:
    await at_work(pod, mover, "sh", "-c", SAVES)
    leave(pod)
    await mover.until_report(lambda r: r["agent"]["state"] == "Ended")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    assert (await archived(mover)).grant == "archive-1"
    await eventually(pod.has_ended, "the keeper has ended")


async def test_who_has_stored_the_final_archive_leaves_at_once(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    await mover.order(verb="end", graceSeconds=1)
    hint(pod, "Ended")
    await archived(mover)
    leave(pod)
    assert pod.stop_keeper(signal.SIGTERM) == 0
    assert [received.grant for received in mover.received] == ["archive-1"]


async def test_a_pod_that_no_agent_has_seen_leaves_at_once(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    await keep(mover, final=True)
    leave(pod)
    await eventually((pod.gate / "orders.json").exists, "the keeper has seen it")
    assert pod.stop_keeper(signal.SIGTERM) == 0
    assert mover.received == []
    assert mover.report["archive"] is None


async def test_a_restarted_keeper_goes_on_leaving(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    pod.stop_keeper()
    leave(pod)
    hint(pod, "Ended")
    await mover.meet(pod.start_keeper)
    await stored_final(mover)


async def test_an_archive_of_an_agent_that_did_not_end_is_made_again_when_it_has(
    pod: KeeperPod, mover: FakeMover
) -> None:
    """Under gVisor an agent can stop init, which then says nothing."""
    await opened(pod, mover)
    await keep(mover, final=True)
    hint(pod, "Running")
    leave(pod)
    await stored_final(mover)
    assert "did not say" in pod.keeper_log()
    (pod.workspace / "late").write_text("x")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await eventually(pod.has_ended, "the keeper has ended")
    assert [received.done["files"] for received in mover.received] == [0, 1]
    assert mover.report["archive"]["sequence"] == 2


async def test_sigterm_alone_uses_the_standing_grant_at_once(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=False)
    await keep(mover, final=True)
    await guard(mover, interval=1)
    (pod.workspace / "work").write_text("x")
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Stored")
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await eventually(pod.has_ended, "the keeper has ended", patience=5)
    assert mover.received[-1].grant == "standing-final"
    assert mover.report["archive"]["final"] is True


async def test_an_end_with_a_longer_grace_is_brought_forward(pod: KeeperPod, mover: FakeMover) -> None:
    await at_work(pod, mover, "sh", "-c", "trap '' TERM; touch up; while :; do sleep 0.05; done")
    await eventually((pod.workspace / "up").exists, "the agent is up")
    await keep(mover, final=True)
    await mover.order(verb="end", graceSeconds=600)
    await eventually((pod.gate / "orders.json").exists, "the end is passed on")
    leave(pod)
    report = await stored_final(mover)
    assert report["agent"]["exitCode"] == 137


@pytest.mark.parametrize("name", ["leaving", "private"])
async def test_leaving_says_so_when_it_cannot(pod: KeeperPod, name: str) -> None:
    if name == "leaving":
        (pod.private / "leaving").symlink_to("/nowhere/at/all")
    else:
        pod.private.rmdir()
    left = pod.run("leave")
    assert left.returncode == 1
    assert "leaving" in left.stderr
