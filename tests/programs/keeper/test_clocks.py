"""Clocks that are wrong: a node's must not cost a workspace, for who judges a grant is the mover."""

import json
import signal

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod, eventually
from testkit.keeper_stories import archived, keep, opened

REFUSED = {"type": "refused", "code": "grant_refused", "message": "the grant has expired"}


def ended(pod: KeeperPod) -> None:
    (pod.hints / "init.json").write_text(json.dumps({"challenge": "a" * 32, "state": "Ended", "exitCode": 0}))


def archives_tried(mover: FakeMover) -> int:
    return sum(hello.purpose == "archive" for hello in mover.hellos)


@pytest.mark.parametrize("is_told", [True, False], ids=["preStop", "SIGTERM alone"])
async def test_a_final_grant_that_the_nodes_clock_calls_expired_is_shown_all_the_same(
    pod: KeeperPod, mover: FakeMover, *, is_told: bool
) -> None:
    """The clock of the node is a day ahead; the operator's is right, and it sees a grant that holds."""
    await opened(pod, mover)
    await keep(mover, final=True, seconds=-12 * 3600)
    ended(pod)
    if is_told:
        assert pod.run("leave").returncode == 0
        await mover.until(lambda: mover.received)
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await eventually(pod.has_ended, "the keeper has ended", patience=5)
    assert [received.grant for received in mover.received] == ["standing-final"]


async def test_a_final_grant_that_has_expired_is_shown_once(pod: KeeperPod, mover: FakeMover) -> None:
    """The mover says so too: what is left is an order, for which there must be a turn."""
    await opened(pod, mover)
    await keep(mover, final=True, seconds=-10)
    ended(pod)
    mover.refusal = REFUSED
    assert pod.run("leave").returncode == 0
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Failed")
    mover.refusal = None
    assert (await archived(mover)).grant == "archive-1"
    assert archives_tried(mover) == 2


async def test_a_grant_that_a_wrong_clock_of_the_mover_refuses_is_shown_again(pod: KeeperPod, mover: FakeMover) -> None:
    await opened(pod, mover)
    await keep(mover, final=True)
    ended(pod)
    mover.refusal = REFUSED
    assert pod.run("leave").returncode == 0
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Failed")
    mover.refusal = None
    await mover.until(lambda: mover.received)
