"""The real keeper, the real mover and a real S3: a workspace goes into the store and comes back in another pod."""

from typing import Any

import pytest

from testkit import trees
from testkit.keeper_pod import AGENT_UID
from testkit.mover_process import MoverProcess, Pod, new_pod
from testkit.real_keeper import keeper_at_home
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer


async def archived(mover: MoverProcess, pod: Pod, tree: trees.Tree) -> tuple[dict[bytes, trees.Seen], dict[str, Any]]:
    """What a walker saw before the archive, and the report of its end."""
    async with keeper_at_home(mover, pod) as (folders, operator):
        report = await operator.prepare(1)
        assert report["workspace"]["state"] == "Ready", report
        await operator.open_gate(folders)
        trees.build(tree, folders.workspace, AGENT_UID)
        before = trees.walk(folders.workspace)
        return before, await operator.archive(1, 1)


async def restored(
    mover: MoverProcess, pod: Pod, expected: dict[bytes, trees.Seen]
) -> tuple[dict[bytes, trees.Seen], dict[str, Any]]:
    """What a walker sees in another pod after the restore, and the report of it."""
    async with keeper_at_home(mover, pod) as (folders, operator):
        report = await operator.prepare(2, (1, 1))
        return await trees.walk_after_restore(folders.workspace, expected), report


async def test_a_workspace_comes_back_in_another_pod_as_it_was(
    mover: MoverProcess, s3: S3Server, pod: Pod, reviews: TokenReviewServer
) -> None:
    before, archive = await archived(mover, pod, trees.ODD)
    assert archive["state"] == "Stored", archive
    assert len(s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")) == 2

    other = new_pod(reviews)
    after, report = await restored(mover, Pod(other.uid, pod.slot, other.token), before)
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
    _, report = await restored(mover, Pod(other.uid, pod.slot, other.token), {})
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
