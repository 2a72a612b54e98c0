"""What a keeper's notes and reports say of an archive is what the store has of it, and no more."""

import json
import signal

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod, eventually
from testkit.keeper_stories import guard, keep, opened


async def test_an_archive_of_an_agent_that_did_not_end_is_made_again_also_by_a_restarted_keeper(
    pod: KeeperPod, mover: FakeMover
) -> None:
    """The note that saves a second upload must not save the one that holds the agent's last words."""
    await opened(pod, mover)
    await keep(mover, final=True)
    hint = {"challenge": "a" * 32, "state": "Running", "exitCode": 0}
    (pod.hints / "init.json").write_text(json.dumps(hint))
    assert pod.run("leave").returncode == 0
    await mover.until_report(lambda r: (r["archive"] or {}).get("state") == "Stored")
    pod.stop_keeper(signal.SIGKILL)
    (pod.workspace / "late").write_text("x")
    (pod.hints / "init.json").write_text(json.dumps({**hint, "state": "Ended"}))
    await mover.meet(pod.start_keeper)
    assert pod.keeper is not None
    pod.keeper.send_signal(signal.SIGTERM)
    await eventually(pod.has_ended, "the keeper has ended")
    assert [received.done["files"] for received in mover.received] == [0, 1]


async def test_an_archive_has_the_number_that_the_mover_gave_it(pod: KeeperPod, mover: FakeMover) -> None:
    """A checkpoint of what is stored already has the number of that: no other one is in the store."""
    await opened(pod, mover)
    await keep(mover, final=False)
    mover.verdict = lambda _: {"type": "stored", "key": "k", "sequence": 4}
    (pod.workspace / "work").write_text("x")
    await guard(mover, interval=1)
    await mover.until(lambda: len(mover.received) == 2)
    before = len(mover.reports)
    report = await mover.until_report(
        lambda r: len(mover.reports) > before and r["archive"]["state"] == "Stored" and len(mover.received) >= 2
    )
    assert report["archive"]["sequence"] == 4
