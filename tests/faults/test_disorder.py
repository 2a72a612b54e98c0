"""Whatever people and accidents do, in whatever order: nothing is lost, and once all is whole again the session runs.

Each seed is one history: acts of users, an unreachable store, absent movers, a stopped kubelet, lost pods, restarts of
init, deaths of the operator and refused calls, at random moments. A seed that fails is a history to read.
"""

import random

import pytest

from sandhold.names import ANNOTATION_RETRY
from testkit import stories
from testkit.faults import Kind
from testkit.small_world import SmallWorld, WatchPolicy
from testkit.stories import SESSION

SEEDS = range(40)
ACTS = 14


class Disorder:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a history that can be played again
        watch = WatchPolicy(delay=self.rng.choice([0, 0, 0.3, 2]), relist_seconds=30)
        if self.rng.random() < 0.3:
            watch.loses = lambda number: number % 4 == 1
        self.world = SmallWorld(None, watch)
        self.written: set[str] = set()
        self.said: list[str] = []
        self._retries = 0

    async def play(self) -> None:
        """Disorder, then peace."""
        await stories.begin(self.world)
        acts = [
            self.suspend,
            self.run,
            self.retry,
            self.toggle_store,
            self.toggle_movers,
            self.toggle_kubelet,
            self.restart_init,
            self.end_agent,
            self.lose_pod,
            self.write,
            self.write,
            self.write,
            self.fault,
            self.fault,
            self.fault,
        ]
        for _ in range(ACTS):
            await self.world.rest(self.rng.choice([0, 0.2, 1, 3, 8, 40]))
            act = self.rng.choice(acts)
            self.said.append(f"{self.world.clock.monotonic():.1f} {act.__name__} in phase {self.world.phase(SESSION)}")
            act()
        await self.peace()

    async def peace(self) -> None:
        """Everything works again; the session is suspended and then told to run, and has all that was ever kept."""
        world = self.world
        world.faults.at.clear()
        world.home.behaviour.store_is_down = False
        world.home.behaviour.kubelet_works = True
        world.home.kubelet_looks_again()
        world.home.movers_come_or_go(away=False)
        world.set_mode(SESSION, "Suspended")
        await world.run_until(
            lambda: world.phase(SESSION) in ("Suspended", "Finished", "Failed") and not world.has_pods()
        )
        world.set_mode(SESSION, "Running")
        self.retry()
        await world.run_until(lambda: world.phase(SESSION) == "Ready")
        assert self.written == world.home.pod_of(stories.uid(world)).files
        assert world.home.violations == []

    def suspend(self) -> None:
        self.world.set_mode(SESSION, "Suspended")

    def run(self) -> None:
        self.world.set_mode(SESSION, "Running")

    def retry(self) -> None:
        self._retries += 1
        note = {ANNOTATION_RETRY: str(self._retries)}
        self.world.change(
            "SandboxSession", SESSION, lambda each: each["metadata"].setdefault("annotations", {}).update(note)
        )

    def toggle_store(self) -> None:
        behaviour = self.world.home.behaviour
        behaviour.store_is_down = not behaviour.store_is_down

    def toggle_movers(self) -> None:
        self.world.home.movers_come_or_go(away=not self.world.home.behaviour.movers_are_away)

    def toggle_kubelet(self) -> None:
        behaviour = self.world.home.behaviour
        behaviour.kubelet_works = not behaviour.kubelet_works
        if behaviour.kubelet_works:
            self.world.home.kubelet_looks_again()

    def restart_init(self) -> None:
        for keeper in self.world.home.pods.values():
            if keeper.connected:
                keeper.restart_init()

    def end_agent(self) -> None:
        for keeper in self.world.home.pods.values():
            if keeper.report.agent_state == "Running":
                keeper.say(agent_state="Ended", agent_exit_code=0)

    def lose_pod(self) -> None:
        """An accident that no operator prevents: what was not archived of this pod is gone."""
        if self.world.home.pods:
            session = stories.uid(self.world)
            keeper = self.world.home.pod_of(session)
            if keeper.epoch:
                self.written -= keeper.fresh - self.world.home.store.newest_content(keeper.slot, keeper.epoch)
            self.world.home.lose_pod(session)

    def write(self) -> None:
        for keeper in self.world.home.pods.values():
            if keeper.report.agent_state == "Running":
                name = f"file-{len(self.said)}"
                keeper.files.add(name)
                keeper.fresh.add(name)
                self.written.add(name)

    def fault(self) -> None:
        number = len(self.world.faults.calls) + self.rng.randrange(4)
        self.world.faults.at[number] = self.rng.choice(list(Kind))


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_disorder_all_that_was_kept_is_there(seed: int) -> None:
    disorder = Disorder(seed)
    try:
        await disorder.play()
    except AssertionError as error:
        raise AssertionError(f"{error}\n" + "\n".join(disorder.said) + f"\n{disorder.world.describe()}") from error
    finally:
        if disorder.world.operator is not None:
            disorder.world.operator.end()
