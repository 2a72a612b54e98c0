"""A store that answers late, stale, damaged or in part: nothing of that is a verdict, and no older state gets ahead."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from testkit.mover_process import MoverProcess, Pod, eventually
from testkit.s3_server import S3Server
from testkit.store_proxy import Answer, Ask, Request, Rule, StoreProxy
from testkit.wire_keeper import ONE_FILE, done, lines


@pytest_asyncio.fixture
async def proxy(s3: S3Server) -> AsyncIterator[StoreProxy]:
    async with StoreProxy(s3).serving() as proxy:
        yield proxy


@pytest.fixture
def behind(own_mover: MoverProcess, proxy: StoreProxy) -> MoverProcess:
    """A mover that sees the store through the proxy."""
    store = {"type": "s3", "endpoint": proxy.endpoint, "bucket": proxy.bucket, "prefix": "sandboxes/"}
    own_mover.write_backends({"main": store})
    own_mover.write_credentials("main")
    return own_mover


@pytest_asyncio.fixture(autouse=True)
async def started(behind: MoverProcess) -> None:
    await asyncio.to_thread(behind.start)


def numbers(s3: S3Server, pod: Pod) -> list[int]:
    return [int(key[-10:]) for key in s3.list_keys(f"sandboxes/test-installation/{pod.slot}/0")]


def is_manifest(request: Request, method: str) -> bool:
    return request.method == method and request.key[-21:-10].startswith("0000000001")


def once(method: str, change: Callable[[Answer], Answer]) -> Rule:
    """Change the server's answer to the next request for a manifest."""
    left = [change]

    async def rule(request: Request, ask: Ask) -> Answer | None:
        if not left or not is_manifest(request, method):
            return None
        return left.pop()(await ask())

    return rule


def damaged(answer: Answer) -> Answer:
    return Answer(answer.status, answer.headers, answer.body.replace(b'"files":1', b'"files":2'))


def cut(answer: Answer) -> Answer:
    return Answer(answer.status, answer.headers, answer.body[:-20], len(answer.body))


@pytest.mark.parametrize("change", [damaged, cut], ids=["damaged", "cut"])
async def test_a_manifest_that_reads_back_wrong_is_to_be_stored_again(
    proxy: StoreProxy, behind: MoverProcess, s3: S3Server, pod: Pod, change: Callable[[Answer], Answer]
) -> None:
    """A keeper that leaves gives up on what is not to be tried again, and with it on the workspace."""
    proxy.rules.append(once("GET", change))
    answer = await behind.archive(pod, b"layer", final=True)
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "snapshot_store_unavailable", True)
    again = await behind.archive(pod, b"layer", final=True)
    assert again["type"] == "stored"
    assert again["sequence"] in numbers(s3, pod)


def stale_lists(of: StoreProxy) -> None:
    """Every listing from now on is the first one."""
    kept: list[Answer] = []

    async def rule(request: Request, ask: Ask) -> Answer | None:
        if request.method != "GET" or "list-type=2" not in request.query:
            return None
        if not kept:
            kept.append(await ask())
        return kept[0]

    of.rules.append(rule)


async def test_an_archive_that_was_given_up_gets_no_number_by_a_listing_that_is_late(
    proxy: StoreProxy, behind: MoverProcess, mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    """The number that is taken says as much as a listing: the keeper has stored another archive meanwhile."""
    stale_lists(proxy)
    grant = behind.installation.grant("archive", pod.uid, pod.slot, final=False)
    async with behind.keeper("archive", pod.token, grant) as given_up:
        assert (await mover.archive(pod, b"the state after", final=True))["sequence"] == 1
        await given_up.send_archive(b"the state before", ONE_FILE)
        answer = await given_up.hear()
    assert (answer["type"], answer.get("code"), answer.get("retryable")) == ("failed", "manifest_producer_failed", True)
    assert numbers(s3, pod) == [1]


async def test_a_final_archive_waits_for_what_it_follows_and_is_sent_once(
    proxy: StoreProxy, behind: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    """A checkpoint given up while its manifest is being written may still come to be: the pod's last seconds count."""
    arrived, goes_on = asyncio.Event(), asyncio.Event()

    async def rule(request: Request, _: Ask) -> Answer | None:
        if is_manifest(request, "PUT") and not arrived.is_set():
            arrived.set()
            await goes_on.wait()
        return None

    proxy.rules.append(rule)
    grant = behind.installation.grant("archive", pod.uid, pod.slot, final=False)
    async with behind.keeper("archive", pod.token, grant) as given_up:
        await given_up.send_part([b"the state before"])
        await given_up.send_part([lines(ONE_FILE)])
        await given_up.say(done(b"the state before", ONE_FILE))
        await arrived.wait()
    asyncio.get_running_loop().call_later(1, goes_on.set)
    grant = behind.installation.grant("archive", pod.uid, pod.slot, final=True)
    async with behind.keeper("archive", pod.token, grant) as peer:
        await eventually(lambda: numbers(s3, pod) == [1])
        await peer.send_archive(b"the state after", ONE_FILE)
        answer = await peer.hear()
    assert (answer["type"], answer.get("sequence")) == ("stored", 2), answer
    assert numbers(s3, pod) == [1, 2]
