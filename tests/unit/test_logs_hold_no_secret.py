"""Whole stories, every line of them at DEBUG, before anything is struck out: no secret is ever part of one."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sandhold import logs
from testkit import stories
from testkit.faults import Faults, Kind
from testkit.small_world import AUTHORITY, SmallWorld

ENV = "value-of-a-variable-93c1"
SESSION_ENV = "value-of-the-session-77d2"
CONTENT = "content-of-an-entry-5ab0"
SPEC: dict[str, Any] = {
    "env": [{"name": "TOKEN", "value": ENV}],
    "workspace": {"entries": [{"path": "AGENTS.md", "file": {"content": CONTENT}}]},
}


class Listening(logging.Handler):
    """Every line as it would be without the strike-outs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.about: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {vars(record)!r} {record.exc_info!r}")
        self.about |= set(logs._subject.get())


@pytest.fixture
def listening() -> Iterator[Listening]:
    handler, logger = Listening(), logging.getLogger("sandhold")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def listen_to_grants(world: SmallWorld, heard: set[str]) -> None:
    """Note every grant that goes out."""
    give = world.home.order

    async def noting(pod_uid: str, order: Mapping[str, Any]) -> None:
        if order.get("grant"):
            heard.add(str(order["grant"]))
        await give(pod_uid, order)

    world.home.order = noting  # type: ignore[method-assign]


@pytest.mark.parametrize("story", ["well", "store is down", "calls fail"])
async def test_no_line_of_a_story_holds_a_secret(story: str, listening: Listening) -> None:
    grants: set[str] = set()
    failing = {2: Kind.SERVER_ERROR, 4: Kind.FORBIDDEN, 6: Kind.CONFLICT, 8: Kind.TOO_MANY, 10: Kind.DROPPED_ANSWER}
    world = SmallWorld(Faults(failing if story == "calls fail" else {}))
    listen_to_grants(world, grants)
    world.create("AgentSandbox", stories.SANDBOX, {**stories.SPEC, **SPEC})
    spec = {"sandboxRef": {"name": stories.SANDBOX}, "env": [{"name": "KEY", "value": SESSION_ENV}]}
    world.create("SandboxSession", stories.SESSION, spec)
    await world.run_until(lambda: world.phase(stories.SESSION) == "Ready")
    if story == "store is down":
        world.home.behaviour.store_is_down = True
    world.set_mode(stories.SESSION, "Suspended")
    await world.rest(120)
    world.home.behaviour.store_is_down = False
    await world.run_until(lambda: world.phase(stories.SESSION) == "Suspended")
    world.set_mode(stories.SESSION, "Running")
    await world.run_until(lambda: world.phase(stories.SESSION) == "Ready")
    world.delete("SandboxSession", stories.SESSION)
    await world.run_until(lambda: world.session(stories.SESSION) is None)
    assert world.operator is not None
    world.operator.end()
    assert len(listening.lines) > 10
    assert {"kind", "namespace", "name", "uid", "pass"} <= listening.about
    assert len(grants) >= 2
    key = AUTHORITY.grant_key.private_bytes_raw().hex()
    for secret in (ENV, SESSION_ENV, CONTENT, key, *grants):
        assert not [line for line in listening.lines if secret in line]
