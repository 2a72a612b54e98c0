"""Archives that a keeper has given up before its mover began to take them: an older state is never the newest.

A small archive is whole in the mover's buffers before the mover has read a byte of it, so that its end alone proves
nothing: what the mover compares it with has to be older than the first look at the tree.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import ONE_FILE

TURNS = 8


def grant_of(mover: MoverProcess, pod: Pod, *, final: bool) -> str:
    return mover.installation.grant("archive", pod.uid, pod.slot, final=final)


@asynccontextmanager
async def busy(mover: MoverProcess, reviews: TokenReviewServer) -> AsyncIterator[None]:
    """A mover whose places for transfers are all taken, until the end of the block."""
    async with AsyncExitStack() as stack:
        for _ in range(TURNS):
            pod = new_pod(reviews)
            peer = await stack.enter_async_context(mover.keeper("archive", pod.token, grant_of(mover, pod, final=True)))
            await peer.send_part([b"begun"])
        await eventually(lambda: mover.metric("sandhold_mover_transfers_running", verb="archive") == TURNS)
        yield


async def test_an_archive_given_up_before_its_turn_is_not_stored_above_the_one_after_it(
    both: tuple[MoverProcess, MoverProcess], s3: S3Server, reviews: TokenReviewServer, pod: Pod
) -> None:
    """A checkpoint waits for its turn at a busy mover; the pod goes, and its final archive gets in through another."""
    folder = f"sandboxes/test-installation/{pod.slot}/0"
    async with busy(both[0], reviews):
        async with both[0].keeper("archive", pod.token, grant_of(both[0], pod, final=False)) as given_up:
            await given_up.send_archive(b"the state before", ONE_FILE)
            given_up.writer.close()
            await given_up.writer.wait_closed()
        async with both[1].keeper("archive", pod.token, grant_of(both[1], pod, final=True)) as peer:
            await peer.send_archive(b"the state after", ONE_FILE)
            assert (await peer.hear())["sequence"] == 1
    await eventually(lambda: both[0].metric("sandhold_mover_transfers_running", verb="archive") == 0)
    assert [key[-21:] for key in s3.list_keys(folder)] == ["0000000001-0000000001"]
