"""The real keeper, the real mover and a real S3: a workspace goes into the store and comes back in another pod."""

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from testkit import trees
from testkit.keeper_pod import AGENT_UID, KeeperPod
from testkit.mover_process import MoverProcess, Pod, new_pod
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import Peer

CHALLENGE = "a" * 32


class Operator:
    """An operator that gives one pod orders, one after the other."""

    def __init__(self, peer: Peer, pod: Pod) -> None:
        self._peer = peer
        self._pod = pod

    async def until(self, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The pod's report, once it is as it should be."""
        while True:
            message = await self._peer.hear()
            if message.get("podUid") == self._pod.uid and message["report"] and holds(message["report"]):
                report: dict[str, Any] = message["report"]
                return report

    async def order(self, **order: Any) -> None:
        """Give an order; whether it was obeyed is for the next report to say."""
        await self._peer.say({"type": "request", "id": 1, "verb": "order", "podUid": self._pod.uid, "order": order})

    async def prepare(self, **fields: Any) -> dict[str, Any]:
        """Have the workspace prepared; the report that says how that went."""
        order = {"verb": "prepare", "slot": self._pod.slot, "entriesDigest": "", "writeEntries": False, "probes": []}
        await self.order(**order, **fields)
        return await self.until(lambda report: report["workspace"]["state"] in {"Ready", "Failed"})


@asynccontextmanager
async def running(mover: MoverProcess, pod: Pod) -> Any:
    """A keeper in a pod that calls this mover, and an operator that has heard of it."""
    with KeeperPod() as folders:
        folders.token.write_text(pod.token)
        (folders.podinfo / "mover-address").write_text(f"127.0.0.1:{mover.keeper_port}")
        (folders.podinfo / "mover-ca").write_bytes(mover.installation.authority.certificate_pem)
        async with mover.operator() as peer:
            operator = Operator(peer, pod)
            folders.start_keeper()
            await operator.until(lambda report: report["workspace"]["state"] == "Empty")
            yield folders, operator


async def archived(mover: MoverProcess, pod: Pod, tree: trees.Tree) -> tuple[dict[bytes, trees.Seen], dict[str, Any]]:
    """What a walker saw before the archive, and the report of its end."""
    async with running(mover, pod) as (folders, operator):
        report = await operator.prepare(epoch=1, source=None, grant="")
        assert report["workspace"]["state"] == "Ready", report
        (folders.hints / "init.json").write_text(json.dumps({"challenge": CHALLENGE, "state": "Waiting"}))
        await operator.until(lambda report: report["gate"]["challenge"] == CHALLENGE)
        await operator.order(verb="open", challenge=CHALLENGE, word={"argv": [], "env": {}, "workingDir": "/"})
        await operator.until(lambda report: report["gate"]["opened"] == CHALLENGE)
        trees.build(tree, folders.workspace, AGENT_UID)
        before = trees.walk(folders.workspace)
        grant = mover.installation.grant("archive", pod.uid, pod.slot, epoch=1, sequence=1, final=True)
        await operator.order(verb="archive", sequence=1, final=True, grant=grant)
        report = await operator.until(lambda report: (report["archive"] or {}).get("state") in {"Stored", "Failed"})
        return before, report["archive"]


async def restored(mover: MoverProcess, pod: Pod) -> tuple[dict[bytes, trees.Seen], dict[str, Any]]:
    """What a walker sees in another pod after the restore, and the report of it."""
    async with running(mover, pod) as (folders, operator):
        source = {"epoch": 1, "sequence": 1}
        grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source=source)
        report = await operator.prepare(epoch=2, source=source, grant=grant)
        return trees.walk(folders.workspace), report


async def test_a_workspace_comes_back_in_another_pod_as_it_was(
    mover: MoverProcess, s3: S3Server, pod: Pod, reviews: TokenReviewServer
) -> None:
    before, archive = await archived(mover, pod, trees.ODD)
    assert archive["state"] == "Stored", archive
    assert len(s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")) == 2

    other = new_pod(reviews)
    after, report = await restored(mover, Pod(other.uid, pod.slot, other.token))
    assert report["workspace"]["state"] == "Ready", report
    assert report["marker"] == {
        "slot": pod.slot,
        "epoch": 2,
        "recovery": "Restored",
        "source": {"epoch": 1, "sequence": 1},
    }
    assert set(after) == set(trees.ODD)
    assert after == before


@pytest.mark.parametrize("damage", ["cut", "altered", "gone"])
async def test_a_damaged_layer_is_refused_and_never_an_empty_workspace(
    mover: MoverProcess, s3: S3Server, pod: Pod, reviews: TokenReviewServer, damage: str
) -> None:
    await archived(mover, pod, trees.ODD)
    [key] = s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")
    content = s3.get(key)
    if damage == "gone":
        s3.delete(key)
    else:
        s3.put(key, content[:-10] if damage == "cut" else content[:-10] + bytes(10))
    other = new_pod(reviews)
    _, report = await restored(mover, Pod(other.uid, pod.slot, other.token))
    assert (report["workspace"]["state"], report["workspace"]["code"]) == ("Failed", "invalid_snapshot")
    assert report["marker"] is None


async def test_a_store_that_is_down_is_told_to_the_operator_as_such(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    own_s3.stop()
    _, archive = await archived(own_mover, pod, trees.ODD)
    assert (archive["state"], archive["code"]) == ("Failed", "snapshot_store_unavailable")
    assert "no connection; check that the service runs" in archive["message"]
