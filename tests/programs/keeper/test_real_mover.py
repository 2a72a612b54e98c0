"""The real keeper, the real mover and a real S3: the two halves of the protocol fit, without a double between them."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit import trees
from testkit.keeper_pod import AGENT_UID, KeeperPod, eventually
from testkit.keeper_stories import prepare, word
from testkit.mover_process import MoverProcess, Pod, new_pod
from testkit.pki import Installation
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.trees import ODD
from testkit.wire_keeper import Peer


@pytest.fixture
def reviews() -> Iterator[TokenReviewServer]:
    server = TokenReviewServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def real_mover(tmp_path: Path, reviews: TokenReviewServer) -> Iterator[MoverProcess]:
    for folder in ("s3", "mover"):
        (tmp_path / folder).mkdir()
    s3 = S3Server(tmp_path / "s3")
    mover = MoverProcess(tmp_path / "mover", Installation.new(), reviews)
    try:
        s3.start()
        mover.use(s3)
        mover.start()
        yield mover
    finally:
        mover.kill()
        s3.stop()


def move_in(pod: KeeperPod, mover: MoverProcess, identity: Pod) -> None:
    """Start a keeper that calls this mover as this pod."""
    pod.token.write_text(identity.token)
    (pod.podinfo / "mover-address").write_text(f"127.0.0.1:{mover.keeper_port}")
    (pod.podinfo / "mover-ca").write_bytes(mover.installation.authority.certificate_pem)
    pod.start_keeper()


async def report(operator: Peer, identity: Pod, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Hear pushes until the pod's report fits."""
    while True:
        push = await operator.hear()
        if push["type"] == "keeper" and push["podUid"] == identity.uid and push["report"] and holds(push["report"]):
            return dict(push["report"])


async def order(operator: Peer, identity: Pod, **fields: Any) -> None:
    await operator.say(
        {
            "type": "request",
            "id": 1,
            "verb": "order",
            "podUid": identity.uid,
            "order": {"slot": identity.slot, **fields},
        }
    )


async def set_to_work(operator: Peer, pod: KeeperPod, identity: Pod) -> None:
    """A first epoch with an empty workspace, its gate open and its agent running."""
    await report(operator, identity, lambda r: r["workspace"]["state"] == "Empty")
    await order(operator, identity, **prepare(epoch=1, slot=identity.slot))
    await report(operator, identity, lambda r: r["workspace"]["state"] == "Ready")
    pod.start_init()
    waiting = await report(operator, identity, lambda r: r["gate"]["challenge"])
    await order(operator, identity, verb="open", challenge=waiting["gate"]["challenge"], word=word(pod))
    await report(operator, identity, lambda r: r["agent"]["state"] == "Running")


async def test_checkpoints_and_the_final_archive_of_a_pod_that_leaves_need_no_operator(
    real_mover: MoverProcess, reviews: TokenReviewServer
) -> None:
    identity = new_pod(reviews)
    grant = real_mover.installation.grant
    with KeeperPod() as pod:
        async with real_mover.operator() as operator:
            move_in(pod, real_mover, identity)
            await set_to_work(operator, pod, identity)
            expires = int(time.time()) + 3600
            for final in (False, True):
                shown = grant("archive", identity.uid, identity.slot, sequence=1, final=final)
                await order(
                    operator, identity, verb="keep", final=final, expires=expires, maxBytes=1 << 30, grant=shown
                )
        (pod.workspace / "work").write_text("first")
        async with real_mover.operator() as operator:
            await order(operator, identity, verb="guard", sizeBytes=0, limitBytes=0, intervalSeconds=1)
        await eventually(lambda: has_stored(pod, 1, final=False), "the first checkpoint is stored")
        (pod.workspace / "work").write_text("second")
        await eventually(lambda: has_stored(pod, 2, final=False), "the second checkpoint is stored")
        assert pod.run("leave").returncode == 0
        await eventually(lambda: has_stored(pod, 3, final=True), "the final archive is stored")
        assert pod.stop_keeper(signal.SIGTERM) == 0


def has_stored(pod: KeeperPod, sequence: int, *, final: bool) -> bool:
    """Whether the keeper's own note tells of an archive of at least that number."""
    try:
        note = json.loads((pod.private / "stored.json").read_text())
    except FileNotFoundError:
        return False
    return bool(note["sequence"] >= sequence and note["final"] == final)


async def test_a_workspace_goes_to_s3_and_comes_back_to_another_pod(
    real_mover: MoverProcess, reviews: TokenReviewServer
) -> None:
    first, second = new_pod(reviews), new_pod(reviews)
    grant = real_mover.installation.grant
    async with real_mover.operator() as operator:
        with KeeperPod() as pod:
            move_in(pod, real_mover, first)
            await set_to_work(operator, pod, first)
            trees.build(ODD, pod.workspace, AGENT_UID)
            before = trees.walk(pod.workspace)
            await order(operator, first, verb="end", graceSeconds=1)
            await report(operator, first, lambda r: r["agent"]["state"] == "Ended")
            shown = grant("archive", first.uid, first.slot, sequence=1, final=True)
            await order(operator, first, verb="archive", sequence=1, final=True, grant=shown)
            ended = await report(operator, first, lambda r: r["archive"] and r["archive"]["state"] != "Running")
            assert ended["archive"]["state"] == "Stored", ended["archive"]

        with KeeperPod() as pod:
            source = {"epoch": 1, "sequence": 1}
            move_in(pod, real_mover, second)
            await report(operator, second, lambda r: r["workspace"]["state"] == "Empty")
            shown = grant("restore", second.uid, first.slot, epoch=2, source=source)
            await order(operator, second, **prepare(epoch=2, slot=first.slot, source=source, grant=shown))
            ended = await report(operator, second, lambda r: r["workspace"]["state"] in ("Ready", "Failed"))
            assert ended["workspace"]["state"] == "Ready", ended["workspace"]
            assert ended["workspace"]["files"] == len(ODD)
            assert await trees.walk_after_restore(pod.workspace, before) == before
