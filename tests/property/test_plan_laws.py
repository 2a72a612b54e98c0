"""The laws of a plan over every world that a cluster could show."""

from hypothesis import given, settings

from sandhold.desired.world import SandboxWorld, SessionWorld
from testkit import laws
from testkit.any_world import sandbox_worlds, session_worlds

FEW = settings(max_examples=150, deadline=None, derandomize=True)
MANY = settings(max_examples=400, deadline=None, derandomize=True)


@given(session_worlds())
@MANY
def test_a_session_keeps_every_law(world: SessionWorld) -> None:
    laws.every_session_law(world)


@given(session_worlds())
@FEW
def test_equal_worlds_give_equal_plans(world: SessionWorld) -> None:
    laws.pure(world)


@given(session_worlds())
@FEW
def test_what_is_not_known_never_adds_a_delete(world: SessionWorld) -> None:
    laws.cautious(world)


@given(session_worlds())
@FEW
def test_messages_do_not_hold_the_time(world: SessionWorld) -> None:
    laws.quiet(world)


@given(sandbox_worlds())
@FEW
def test_a_sandbox_touches_nothing_foreign(world: SandboxWorld) -> None:
    laws.owning(world, laws.decide(world))


@given(sandbox_worlds())
@FEW
def test_a_sandbox_is_pure_cautious_and_quiet(world: SandboxWorld) -> None:
    laws.pure(world)
    laws.cautious(world)
    laws.quiet(world)
