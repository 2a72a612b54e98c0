"""What a keeper is put through again and again: to an open gate, an archive, a restore in another pod."""

import json
import time
from typing import Any

from testkit import trees
from testkit.fake_mover import FakeMover, Received, Snapshot
from testkit.keeper_pod import AGENT_UID, KeeperPod
from testkit.trees import Seen, Tree


async def opened(pod: KeeperPod, mover: FakeMover) -> None:
    """A pod whose gate is open, with nothing in its workspace."""
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await mover.order(
        verb="prepare", slot="slot", epoch=1, source=None, grant="", entriesDigest="", writeEntries=True, probes=[]
    )
    (pod.hints / "init.json").write_text(json.dumps({"challenge": "a" * 32, "state": "Waiting", "exitCode": 0}))
    await mover.until_report(lambda r: r["workspace"]["state"] == "Ready" and r["gate"]["challenge"])
    await mover.order(verb="open", challenge="a" * 32, word={"argv": [], "env": {}, "workingDir": "/"})
    await mover.until_report(lambda r: r["gate"]["opened"])


async def archived(mover: FakeMover, sequence: int = 1) -> Received:
    before = len(mover.reports)
    await mover.order(verb="archive", sequence=sequence, final=True, grant=f"archive-{sequence}")
    report = await mover.until_report(
        lambda r: (
            len(mover.reports) > before
            and (r["archive"] or {}).get("sequence", 0) >= sequence
            and r["archive"]["final"]
            and r["archive"]["state"] != "Running"
        )
    )
    assert report["archive"]["state"] == "Stored", report["archive"]
    return mover.received[-1]


async def keep(mover: FakeMover, *, final: bool, seconds: int = 3600, **fields: Any) -> None:
    """Give the keeper a standing grant: `standing-final` or `standing-checkpoint`."""
    grant = "standing-final" if final else "standing-checkpoint"
    expires = int(time.time()) + seconds
    await mover.order(**{"verb": "keep", "final": final, "expires": expires, "maxBytes": 0, "grant": grant, **fields})
    kind = "final" if final else "checkpoint"
    await mover.until_report(lambda r: (r["kept"] or {}).get(kind) == expires)


async def guard(mover: FakeMover, *, size: int = 0, limit: int = 0, interval: int = 0) -> None:
    """Tell the keeper how large the workspace may be, and how often to make checkpoints."""
    order = {"sizeBytes": size, "limitBytes": limit, "intervalSeconds": interval}
    await mover.order(verb="guard", **order)
    await mover.until_report(lambda r: r["guard"] and order.items() <= r["guard"].items())


async def at_work(pod: KeeperPod, mover: FakeMover, *argv: str) -> str:
    """A pod with a real init whose agent runs; the challenge of that init."""
    await ready(pod, mover)
    pod.start_init()
    challenge = await waiting_init(mover)
    await mover.order(verb="open", challenge=challenge, word=word(pod, *argv))
    await mover.until_report(lambda r: r["agent"]["state"] == "Running")
    return challenge


async def restored(pod: KeeperPod, mover: FakeMover, snapshot: Snapshot) -> dict[str, Any]:
    """Start a keeper that restores a snapshot; the report that says how it went."""
    mover.snapshots["restore"] = snapshot
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)
    await order_restore(mover)
    return await mover.until_report(lambda r: r["workspace"]["state"] in ("Ready", "Failed"))


async def order_restore(mover: FakeMover) -> None:
    await mover.order(
        verb="prepare",
        slot="slot",
        epoch=2,
        source={"epoch": 1, "sequence": 1},
        grant="restore",
        entriesDigest="",
        writeEntries=False,
        probes=[],
    )


async def round_trip(mover: FakeMover, tree: Tree) -> tuple[dict[bytes, Seen], dict[bytes, Seen], Received]:
    """What a walker sees before an archive and after a restore of it in another pod."""
    with KeeperPod() as one:
        await opened(one, mover)
        trees.build(tree, one.workspace, AGENT_UID)
        before = trees.walk(one.workspace)
        received = await archived(mover)
        assert trees.walk(one.workspace) == before, "the archived tree is as it was"
        one.stop_keeper()
    with KeeperPod() as other:
        report = await restored(other, mover, received.snapshot(1, 1))
        assert report["workspace"]["state"] == "Ready", report["workspace"]
        assert report["marker"]["recovery"] == "Restored"
        assert report["marker"]["source"] == {"epoch": 1, "sequence": 1}
        return before, await trees.walk_after_restore(other.workspace, before), received


def prepare(**fields: Any) -> dict[str, Any]:
    order = {"verb": "prepare", "slot": "slot", "epoch": 3, "source": None, "grant": "", "entriesDigest": ""}
    return {**order, "writeEntries": True, "probes": [], **fields}


def word(pod: KeeperPod, *argv: str) -> dict[str, Any]:
    return {"argv": list(argv), "env": {"PATH": "/usr/bin:/bin"}, "workingDir": str(pod.workspace)}


async def at_home(pod: KeeperPod, mover: FakeMover) -> None:
    pod.point_at(mover)
    await mover.meet(pod.start_keeper)


async def ready(pod: KeeperPod, mover: FakeMover, **fields: Any) -> None:
    await at_home(pod, mover)
    await mover.order(**prepare(**fields))
    await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")


async def waiting_init(mover: FakeMover, other_than: str = "") -> str:
    report = await mover.until_report(lambda report: report["gate"]["challenge"] not in ("", other_than))
    return str(report["gate"]["challenge"])
