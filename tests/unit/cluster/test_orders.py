"""Orders are signed as they go out, and the same one is not given twice within moments, whatever the time is."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandhold.cluster.history import Histories
from sandhold.cluster.memory import Memory
from sandhold.cluster.orders import REPEAT_SECONDS, Orders
from sandhold.desired import orders
from sandhold.desired.plan import Fence, Order
from sandhold.desired.world import Keeper, KeeperReport, Kept, SlotHistory, StoreTrouble, Unknown
from sandhold.mover.grant import Verb, verify_grant
from testkit import worlds
from testkit.clock import FakeClock

KEY = Ed25519PrivateKey.generate()
UID = worlds.pod_uid()


class Movers:
    """Takes orders."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []
        self.known: dict[str, Keeper] = {UID: Keeper(connected=True, report=KeeperReport())}

    def keepers(self) -> Mapping[str, Keeper]:
        return self.known

    async def order(self, _uid: str, order: Mapping[str, Any]) -> None:
        self.given.append(order)

    def subscribe(self, _: Any) -> None:
        raise NotImplementedError

    async def history(self, _store: str, _slot: str) -> SlotHistory | StoreTrouble | Unknown:
        raise NotImplementedError

    async def fence(self, _: Fence) -> StoreTrouble | None:
        raise NotImplementedError


def keep(clock: FakeClock, *, final: bool = False, **spec: Any) -> Order:
    holder = orders.Holder("demo", UID, worlds.SLOT, 1, "main", clock())
    return orders.keep_order(UID, orders.standing_grant(holder, worlds.a_sandbox(spec), final=final))


async def test_a_standing_grant_is_given_once_a_moment_though_each_pass_sets_its_end_anew() -> None:
    clock, movers = FakeClock(), Movers()
    given = Orders(movers, Histories(movers), Memory(), KEY, clock.monotonic)
    assert await given.order(keep(clock)) is None
    for _ in range(4):
        clock.advance(1)
        assert await given.order(keep(clock)) is not None
    assert await given.order(keep(clock, final=True)) is None, "the other kind is another order"
    assert await given.order(keep(clock, snapshot={"maxBytes": "1Gi"})) is None, "and so is another limit"
    clock.advance(REPEAT_SECONDS)
    assert await given.order(keep(clock)) is None
    assert [each["final"] for each in movers.given] == [False, True, False, False]


async def test_what_the_keeper_said_since_is_a_reason_to_give_it_again() -> None:
    clock, movers = FakeClock(), Movers()
    given = Orders(movers, Histories(movers), Memory(), KEY, clock.monotonic)
    await given.order(keep(clock))
    movers.known = {UID: replace(movers.known[UID], report=KeeperReport(kept=Kept(0, 0)))}
    assert await given.order(keep(clock)) is None


async def test_the_grant_goes_out_signed_and_says_what_the_order_says() -> None:
    clock, movers = FakeClock(), Movers()
    given = Orders(movers, Histories(movers), Memory(), KEY, clock.monotonic)
    await given.order(keep(clock, final=True))
    (said,) = movers.given
    now = clock().timestamp()
    grant = verify_grant(said["grant"], [KEY.public_key()], verb=Verb.ARCHIVE, pod_uid=UID, now=now)
    assert (said["verb"], said["final"], said["expires"]) == ("keep", grant.final, grant.expires)
    assert grant.expires == int((clock() + timedelta(hours=24)).timestamp())
