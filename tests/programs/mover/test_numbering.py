"""The mover numbers archives: the next free number of the epoch, or the one that the same archive has already."""

import asyncio
import hashlib
import time

import pytest

from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import ONE_FILE, done, lines


async def restored(mover: MoverProcess, pod: Pod, epoch: int, sequence: int) -> bytes:
    source = {"epoch": epoch, "sequence": sequence}
    grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=epoch + 1, source=source)
    async with mover.keeper("restore", pod.token, grant) as peer:
        assert (await peer.hear())["type"] == "manifest"
        await peer.hear_part()
        return await peer.hear_part()


def layers(s3: S3Server, pod: Pod) -> list[str]:
    return s3.list_keys(f"sandboxes/test-installation/{pod.slot}/layers/")


def manifests(s3: S3Server, pod: Pod) -> list[str]:
    folder = f"sandboxes/test-installation/{pod.slot}/"
    keys = [key.removeprefix(folder) for key in s3.list_keys(folder)]
    return [key for key in keys if not key.startswith("layers/")]


async def test_one_standing_grant_numbers_every_archive_that_it_serves(mover: MoverProcess, pod: Pod) -> None:
    for number in (1, 2, 3):
        stored = await mover.archive(pod, f"state {number}".encode())
        assert (stored["sequence"], stored["key"][-21:]) == (number, f"0000000001-{number:010d}")
        assert await restored(mover, pod, 1, number) == f"state {number}".encode()


async def test_the_grants_number_is_the_lowest(mover: MoverProcess, pod: Pod) -> None:
    assert (await mover.archive(pod, b"a", sequence=7))["sequence"] == 7
    assert (await mover.archive(pod, b"b", sequence=3))["sequence"] == 8


async def test_another_epoch_counts_anew(mover: MoverProcess, pod: Pod) -> None:
    assert (await mover.archive(pod, b"a", epoch=4, sequence=5))["sequence"] == 5
    assert (await mover.archive(pod, b"b", epoch=5))["sequence"] == 1
    assert (await mover.archive(pod, b"c", epoch=4))["sequence"] == 6


async def test_the_same_archive_again_is_the_same_answer(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    first = await mover.archive(pod, b"layer")
    assert await mover.archive(pod, b"layer") == first
    assert await mover.archive(pod, b"layer", sequence=1) == first
    await eventually(lambda: len(layers(s3, pod)) == 1)
    assert len(manifests(s3, pod)) == 1


async def test_a_final_archive_of_an_unchanged_workspace_is_an_archive_of_its_own(
    mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    """`final` comes from the grant alone: a checkpoint is never taken for the stop's archive, nor the other way."""
    numbers = [(await mover.archive(pod, b"same", final=final))["sequence"] for final in (False, True, True, False)]
    assert numbers == [1, 2, 2, 3]
    async with mover.operator() as operator:
        head = (await operator.ask("head", store="main", slot=pod.slot))["result"]["head"]
    assert (head["sequence"], head["final"]) == (3, False)
    await eventually(lambda: len(layers(s3, pod)) == 3)


async def test_another_pods_archive_is_never_taken_for_ones_own(
    mover: MoverProcess, pod: Pod, reviews: TokenReviewServer
) -> None:
    other = new_pod(reviews)
    assert (await mover.archive(pod, b"same"))["sequence"] == 1
    assert (await mover.archive(Pod(other.uid, pod.slot, other.token), b"same"))["sequence"] == 2


async def test_an_older_state_that_comes_back_is_a_new_archive(mover: MoverProcess, pod: Pod) -> None:
    """Only the newest archive can be the one whose answer was lost: going back is news."""
    numbers = [(await mover.archive(pod, layer))["sequence"] for layer in (b"a", b"b", b"a")]
    assert numbers == [1, 2, 3]


async def test_a_newest_archive_that_nobody_can_read_does_not_end_the_numbering(
    mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    stored = await mover.archive(pod, b"a")
    s3.put(stored["key"], s3.get(stored["key"])[:-10])
    assert (await mover.archive(pod, b"b"))["sequence"] == 2
    async with mover.operator() as operator:
        head = (await operator.ask("head", store="main", slot=pod.slot))["result"]["head"]
    assert head["sequence"] == 2


async def test_an_epoch_without_a_number_left_asks_for_another_one(mover: MoverProcess, pod: Pod) -> None:
    highest = 9_999_999_999
    assert (await mover.archive(pod, b"a", sequence=highest))["sequence"] == highest
    answer = await mover.archive(pod, b"b")
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "stale_generation", False)


@pytest.mark.parametrize("years", [1, 30, 300])
async def test_a_grant_that_expires_far_ahead_serves(mover: MoverProcess, pod: Pod, years: int) -> None:
    expires = int(time.time()) + years * 365 * 86400
    assert (await mover.archive(pod, b"a", expires=expires))["sequence"] == 1


async def test_two_movers_that_get_one_pods_archive_at_once_store_it_once(
    both: tuple[MoverProcess, MoverProcess], s3: S3Server, pod: Pod
) -> None:
    answers = await asyncio.gather(*(mover.archive(pod, b"layer" * 1000, final=True) for mover in both))
    assert answers[0] == answers[1]
    assert answers[0]["sequence"] == 1
    assert manifests(s3, pod) == ["0000000001-0000000001"]
    await eventually(lambda: len(layers(s3, pod)) == 1)
    assert await restored(both[0], pod, 1, 1) == b"layer" * 1000


async def test_archives_that_race_through_two_movers_have_numbers_of_their_own(
    both: tuple[MoverProcess, MoverProcess], s3: S3Server, reviews: TokenReviewServer, pod: Pod
) -> None:
    """Eight pods that hold grants for one epoch are no normal event; the numbers hold even so."""
    others = [new_pod(reviews) for _ in range(8)]
    pods = [Pod(other.uid, pod.slot, other.token) for other in others]
    answers = await asyncio.gather(
        *(both[index % 2].archive(one, f"state of {index}".encode()) for index, one in enumerate(pods))
    )
    assert sorted(answer["sequence"] for answer in answers) == list(range(1, 9)), answers
    for index, answer in enumerate(answers):
        assert await restored(both[0], pod, 1, answer["sequence"]) == f"state of {index}".encode()
        assert pods[index].uid.encode() in s3.get(answer["key"])


async def test_a_stored_archive_names_the_layer_that_it_names(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    """What a manifest of a later number vouches for is its own layer, never one of a number that was tried before."""
    for number in (1, 2):
        stored = await mover.archive(pod, f"state {number}".encode())
        digest = hashlib.sha256(f"state {number}".encode()).hexdigest()
        assert s3.get(stored["key"]).count(digest.encode()) == 1


@pytest.mark.parametrize("final", [True, False], ids=["a final archive", "a newer checkpoint"])
async def test_an_archive_that_was_given_up_is_never_stored_above_the_one_that_came_after_it(
    both: tuple[MoverProcess, MoverProcess], s3: S3Server, pod: Pod, *, final: bool
) -> None:
    """A keeper leaves, gives its checkpoint up and stores the rest through another mover; the first one is slow."""
    grant, piece = both[0].installation.grant("archive", pod.uid, pod.slot, final=False), b"before" * 40_000
    async with both[0].keeper("archive", pod.token, grant) as slow:
        await slow.send_part([piece] * 128)
        await slow.send_part([lines(ONE_FILE)])
        await eventually(lambda: len(s3.uploads()) > 0)
        assert (await both[1].archive(pod, b"the state after", final=final))["sequence"] == 1
        await slow.say(done(piece * 128, ONE_FILE))
        answer = await slow.hear()
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "manifest_producer_failed", True)
    assert manifests(s3, pod) == ["0000000001-0000000001"]
    assert await restored(both[1], pod, 1, 1) == b"the state after"
    await eventually(lambda: len(layers(s3, pod)) == 1)
    assert (await both[0].archive(pod, b"made anew", final=final))["sequence"] == 2
