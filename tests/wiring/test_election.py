"""One active operator, against a real API server."""

import asyncio

import pytest

from sandhold import names
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.election import Election, LeaseLostError
from sandhold.desired.plan import Reference
from testkit.api_server import ApiServer

SECONDS = 3.0
"""Two thirds of it are what a renewal may take at most; on a busy machine that is soon over."""


def path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{names.ELECTION_LEASE}"


def _renewed(server: ApiServer, namespace: str) -> str:
    return str(server.request("GET", path(namespace))["spec"]["renewTime"])


async def test_of_two_contenders_one_wins_and_the_other_follows_a_release_at_once(
    door: KubeDoor, namespace: str
) -> None:
    one, two = (Election(door, namespace, name, SECONDS) for name in ("one", "two"))
    assert sorted(await asyncio.gather(one.try_acquire(), two.try_acquire())) == [False, True]
    winner, other = (one, two) if one.is_held else (two, one)
    assert not await other.try_acquire()
    await winner.release()
    assert not winner.is_held
    assert await other.try_acquire()
    lease = await door.get(Reference("coordination.k8s.io/v1", "Lease", namespace, names.ELECTION_LEASE))
    assert lease["spec"]["holderIdentity"] == other.identity
    assert lease["spec"]["leaseTransitions"] >= 1


async def test_ten_racers_for_an_expired_lease_have_one_winner(door: KubeDoor, namespace: str) -> None:
    dead = Election(door, namespace, "dead", SECONDS)
    assert await dead.try_acquire()
    racers = [Election(door, namespace, f"racer-{number}", SECONDS) for number in range(10)]
    assert not any([await racer.try_acquire() for racer in racers])
    loop = asyncio.get_running_loop()
    for racer in racers:
        racer._watched = (racer._watched[0], racer._watched[1] - 10)
    started = loop.time()
    assert sum(await asyncio.gather(*(racer.try_acquire() for racer in racers))) == 1
    assert loop.time() - started < 5


async def test_a_renewed_lease_is_not_taken(door: KubeDoor, namespace: str) -> None:
    holder, other = (Election(door, namespace, name, SECONDS) for name in ("holder", "other"))
    await holder.acquire()
    holding = asyncio.create_task(holder.hold())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(other.acquire(), SECONDS * 1.5)
    holding.cancel()
    await asyncio.wait_for(other.acquire(), SECONDS * 3)
    assert other.is_held


async def test_a_holder_whose_lease_was_taken_stops(door: KubeDoor, namespace: str, api_server: ApiServer) -> None:
    holder = Election(door, namespace, "holder", SECONDS)
    await holder.acquire()
    api_server.request("PATCH", path(namespace), {"spec": {"holderIdentity": "somebody-else"}})
    with pytest.raises(LeaseLostError, match="somebody-else"):
        await asyncio.wait_for(holder.hold(), SECONDS * 2)


async def test_a_holder_whose_lease_was_deleted_stops_and_makes_none(
    door: KubeDoor, namespace: str, api_server: ApiServer
) -> None:
    holder = Election(door, namespace, "holder", SECONDS)
    await holder.acquire()
    api_server.request("DELETE", path(namespace))
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(holder.hold(), SECONDS * 2)
    with pytest.raises(Exception, match="404"):
        api_server.request("GET", path(namespace))


async def test_a_write_of_ours_whose_answer_was_lost_is_no_loss(
    door: KubeDoor, namespace: str, api_server: ApiServer
) -> None:
    holder = Election(door, namespace, "holder", SECONDS)
    await holder.acquire()
    api_server.request("PATCH", path(namespace), {"metadata": {"annotations": {"a": "b"}}})
    before = _renewed(api_server, namespace)
    holding = asyncio.create_task(holder.hold())
    async with asyncio.timeout(SECONDS):
        while _renewed(api_server, namespace) == before:  # noqa: ASYNC110 - an API server that is only asked
            await asyncio.sleep(0.05)
    assert not holding.done()
    assert holder.is_held
    holding.cancel()


async def test_a_holder_that_cannot_renew_stops_before_anybody_may_take_over(
    door: KubeDoor, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Election(door, namespace, "holder", SECONDS)
    await holder.acquire()

    async def hang(_: object) -> object:
        return await asyncio.Event().wait()

    monkeypatch.setattr(door, "replace", hang)
    started = asyncio.get_running_loop().time()
    with pytest.raises(LeaseLostError, match="not renewed"):
        await holder.hold()
    assert asyncio.get_running_loop().time() - started < SECONDS
    assert not holder.is_held
