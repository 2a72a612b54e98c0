"""An API server that says 409, 429, 500 or 403 once, at any call of a start, a stop or a deletion, reads included.

The crash sweep has 409 and 500 at the writes of every story; here is each code at each call of three, one after the
other, and a server that refuses for a minute. The operator ends where it ends undisturbed, and does not hurry.
"""

import pytest

from testkit.fault_matrix import FaultMatrix, Where
from testkit.faults import RETRY_AFTER, Faults, Kind
from testkit.playing import ending, played, played_in, undisturbed
from testkit.refusing_world import RefusingWorld
from testkit.small_world import WatchPolicy
from testkit.stories import SESSION, STORIES, Story, begin, start

CODES = (Kind.CONFLICT, Kind.TOO_MANY, Kind.SERVER_ERROR, Kind.FORBIDDEN)
PLAYED = [story for story in STORIES if story.name in ("start", "stop", "delete")]
MOST_MORE_CALLS = 25
"""One refusal may cost so many calls more than there are undisturbed: nobody tries in a tight loop."""


@pytest.mark.parametrize("story", PLAYED, ids=str)
@pytest.mark.parametrize("code", CODES)
async def test_a_write_is_refused_once(story: Story, code: Kind, matrix: FaultMatrix) -> None:
    fault = matrix.begin(f"{code} at any write or order", Where.MEMORY)
    expected, calls = await undisturbed(story)
    found = {}
    for number, call in enumerate(calls):
        world = await played(story, Faults({number: code}))
        assert len(world.faults.raised) == 1
        assert len(world.faults.calls) <= len(calls) + MOST_MORE_CALLS, world.faults.calls
        found[number, call] = ending(world)
    fault.judge_ending(dict.fromkeys(enumerate(calls), expected), found)


@pytest.mark.parametrize("story", [story for story in PLAYED if story.name != "start"], ids=str)
@pytest.mark.parametrize("code", CODES)
async def test_a_read_is_refused_once(story: Story, code: Kind, matrix: FaultMatrix) -> None:
    fault = matrix.begin(f"{code} at any read", Where.MEMORY)
    calm = await played_in(RefusingWorld(), story)
    expected, calls = ending(calm), calm.reads.calls
    assert any(call.startswith("list Pod") for call in calls)
    found = {}
    for number, call in enumerate(calls):
        world = await played_in(RefusingWorld(reads=Faults({number: code})), story)
        assert len(world.reads.raised) == 1
        found[number, call] = ending(world)
    fault.judge_ending(dict.fromkeys(enumerate(calls), expected), found)


class Storm(Faults):
    """Everything is refused from some call on, until the storm is over."""

    def __init__(self, code: Kind, begins: int) -> None:
        super().__init__()
        self._code, self._begins = code, begins
        self.is_over = False

    def before(self, what: str) -> int:
        if len(self.calls) >= self._begins and not self.is_over:
            self.at[len(self.calls)] = self._code
        return super().before(what)


STORM_SECONDS = 60


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("begins", [0, 2, 4, 6])
async def test_a_minute_of_refusals_is_waited_out_without_hurry(code: Kind, begins: int, matrix: FaultMatrix) -> None:
    fault = matrix.begin(f"a minute of {code} at everything during a start", Where.MEMORY)
    expected, _ = await undisturbed(next(story for story in PLAYED if story.name == "start"))
    storm = Storm(code, begins)

    async def in_a_storm(world: RefusingWorld) -> None:
        await begin(world)
        await world.rest(STORM_SECONDS)
        storm.is_over = True
        assert storm.raised, "the storm met something"
        # Two objects, a pass a second each on average: back-off, not a loop.
        assert len(storm.raised) <= 2 * STORM_SECONDS, storm.raised
        if code is Kind.TOO_MANY:
            assert len(storm.raised) <= 2 * (STORM_SECONDS / RETRY_AFTER + 4), storm.raised
        await world.run_until(lambda: world.phase(SESSION) == "Ready")
        world.home.write_file(next(iter(world.home.pods.values())).session_uid, "first")

    fault.judge_ending(expected, ending(await played_in(RefusingWorld(storm), Story(in_a_storm, start))))  # type: ignore[arg-type]


@pytest.mark.parametrize("story", PLAYED, ids=str)
async def test_a_refusal_meets_a_watch_that_has_lost_its_events(story: Story, matrix: FaultMatrix) -> None:
    """Lists alone tell what happened, and one write of each kind is refused meanwhile."""
    fault = matrix.begin("refusals while the watch is mute", Where.MEMORY)
    watch = WatchPolicy(loses=lambda _: True, relist_seconds=10)
    expected, calls = await undisturbed(story, watch)
    found = []
    for number in range(len(calls)):
        code = CODES[number % len(CODES)]
        found.append(ending(await played(story, Faults({number: code}), watch)))
    fault.judge_ending([expected] * len(found), found)
