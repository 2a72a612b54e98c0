"""SandboxSnapshots cannot be written for a while: sessions stop, go on after a loss and are resumed; deletions wait.

The archives are all there. Once writing works again everything ends where it ends undisturbed, with nobody's help.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from sandhold.cluster.answers import QuotaError
from sandhold.desired.plan import Reference
from sandhold.errors import InvalidError, SandholdError, UnavailableError
from testkit import stories
from testkit.fake_cluster import FakeCluster
from testkit.fault_matrix import FaultMatrix, Where
from testkit.playing import ending, played_in
from testkit.running_stories import is_running_again, status
from testkit.small_world import SmallWorld
from testkit.stories import SESSION, Story

ANSWERS: Mapping[str, SandholdError] = {
    "quota": QuotaError('sandboxsnapshots "quill" is forbidden: exceeded quota: cards (HTTP 403)'),
    "policy": InvalidError("ValidatingAdmissionPolicy 'no-cards' denied request (HTTP 422)"),
    "webhook down": UnavailableError("failed calling webhook: connection refused (HTTP 500)"),
}
REFUSED_SECONDS = 200
"""Less than the interval of checkpoints: what a session went on from stays the newest archive."""
MOST_TRIES = 40
"""For a session and so many seconds, what a bad beginning costs included: no loop."""


class Cards(FakeCluster):
    """The same cluster; nobody may write a SandboxSnapshot as long as there is an answer to it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.objects, self.faults, self._owned = cluster.objects, cluster.faults, cluster._owned
        self.answer: SandholdError | None = None
        self.is_update_refused_alone = False
        self.tries = 0

    async def create(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST."""
        if document["kind"] == "SandboxSnapshot" and not self.is_update_refused_alone:
            self._refuse()
        return await super().create(document)

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> Mapping[str, Any]:
        """JSON patch."""
        if reference.kind == "SandboxSnapshot":
            self._refuse()
        return await super().json_patch(reference, operations, subresource)

    def _refuse(self) -> None:
        if self.answer is not None:
            self.tries += 1
            raise self.answer


class CardWorld(SmallWorld):
    """The small world with such a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.cards = Cards(self.cluster)

    def door(self) -> FakeCluster:
        """What the operator sees of the cluster."""
        return self.cards


def is_said(world: SmallWorld) -> bool:
    """Whether the session says which object cannot be written, and what the API server says."""
    found = next((each for each in status(world).get("conditions", ()) if each["type"] == "Snapshotted"), None)
    words = ("SandboxSnapshot quill-", "(HTTP ", "tried again by itself")
    return found is not None and found["reason"] == "Unrecorded" and all(word in found["message"] for word in words)


async def suspends(world: SmallWorld) -> None:
    """It comes to rest."""
    world.set_mode(SESSION, "Suspended")
    await world.run_until(lambda: world.phase(SESSION) == "Suspended" and not world.has_pods(), 60)
    assert is_said(world)


async def is_resumed(world: SmallWorld) -> None:
    """It comes to rest and starts again, with its files."""
    await suspends(world)
    world.set_mode(SESSION, "Running")
    await world.run_until(lambda: is_running_again(world, "first"), 60)
    assert is_said(world)


async def goes_on_after_a_loss(world: SmallWorld) -> None:
    """Its pod is lost, and another one has its last checkpoint."""
    await world.run_until(lambda: bool(status(world).get("snapshot")))
    assert is_said(world)
    world.home.lose_pod(stories.uid(world))
    await world.run_until(lambda: is_running_again(world, "first"), 60)
    assert is_said(world)


async def is_deleted(world: SmallWorld) -> None:
    """It stays until its archive has a name in the cluster; its pod does not."""
    world.delete("SandboxSession", SESSION)
    await world.run_until(lambda: not world.has_pods(), 60)
    await world.run_until(lambda: is_said(world), 60)


async def is_deleted_at_rest(world: SmallWorld) -> None:
    """The same from rest."""
    await suspends(world)
    await is_deleted(world)


Act = Callable[[SmallWorld], Awaitable[None]]
ACTS: Sequence[Act] = (suspends, is_resumed, goes_on_after_a_loss, is_deleted, is_deleted_at_rest)


async def played(act: Act, answer: SandholdError | None, *, updates_alone: bool = False) -> CardWorld:
    """A session does something while records are refused; then they are not any more."""
    world = CardWorld()
    world.cards.is_update_refused_alone = updates_alone

    async def story(world: CardWorld) -> None:
        await stories.start(world)
        world.cards.answer = answer
        await (act(world) if answer is not None else _undisturbed(act, world))
        await world.rest(REFUSED_SECONDS)
        if answer is not None:
            assert is_said(world)
            assert 2 <= world.cards.tries <= MOST_TRIES, world.cards.tries
        if act in (is_deleted, is_deleted_at_rest) and answer is not None:
            assert world.session(SESSION) is not None, "nothing in the cluster names the archive"
            assert world.cluster.objects.count("SandboxSnapshot") == (1 if updates_alone else 0)
        world.cards.answer = None
        await world.rest(120)

    return await played_in(world, Story(story))  # type: ignore[arg-type]


async def _undisturbed(act: Act, world: SmallWorld) -> None:
    match act.__name__:
        case "suspends":
            await stories.suspend(world)
        case "is_resumed":
            await stories.suspend(world)
            world.set_mode(SESSION, "Running")
            await world.run_until(lambda: is_running_again(world, "first"))
        case "goes_on_after_a_loss":
            await world.run_until(lambda: bool(status(world).get("snapshot")))
            world.home.lose_pod(stories.uid(world))
            await world.run_until(lambda: is_running_again(world, "first"))
        case _:
            world.delete("SandboxSession", SESSION)
            await world.run_until(lambda: world.session(SESSION) is None and not world.has_pods())


@pytest.mark.parametrize("refused", ["create", "update"])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_records_cannot_be_written_for_a_while(act: Act, answer: str, refused: str, matrix: FaultMatrix) -> None:
    fault = matrix.begin(f"SandboxSnapshots cannot be written: {answer}", Where.MEMORY)
    expected = ending(await played(act, None))
    fault.judge_ending(expected, ending(await played(act, ANSWERS[answer], updates_alone=refused == "update")))
