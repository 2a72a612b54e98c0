"""Checkpoints and full workspaces, pass by pass: what is written, what is told, and what never counts as stored."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold.api.session import SandboxSession
from sandhold.desired.plan import Create, Delete, Order, Plan, WriteStatus
from sandhold.desired.session import plan_session
from sandhold.desired.world import Guard, Present, Unknown
from testkit import laws, worlds
from testkit.worlds import GUARDED, NOW

READY = worlds.a_session(status=worlds.a_status("Ready"))
FENCED = worlds.a_history(worlds.a_fence())


def checkpoint(sequence: int = 1) -> Any:
    return worlds.an_archive(1, sequence, final=False)


def running(sequence: int = 1, **report: Any) -> Any:
    stored = {"archive_state": "Stored", "archive_sequence": sequence, "archive_is_final": False}
    return worlds.a_keeper("Open", **{**stored, **report})


def plan_of(**world: Any) -> Plan:
    known: dict[str, Any] = {"session": READY, "pods": [worlds.a_pod()], "keepers": running(), "history": FENCED}
    return laws.every_session_law(worlds.a_world(**{**known, **world}))


def told(plan: Plan, name: str) -> tuple[str, str]:
    assert plan.status is not None
    found = next(one for one in plan.status["conditions"] if one["type"] == name)
    return found["status"], found["reason"]


def test_a_stored_checkpoint_takes_an_entry_and_then_one_status() -> None:
    archive = checkpoint()
    first = plan_of(history=worlds.a_history(archive))
    assert [type(write) for write in first.writes] == [Create, WriteStatus]
    assert first.status is None
    second = plan_of(history=worlds.a_history(archive), snapshots=[worlds.a_snapshot(archive)])
    assert second.writes == ()
    assert second.status is not None
    assert second.status["snapshot"]["sequence"] == 1
    assert told(second, "Snapshotted") == ("True", "Checkpointed")
    assert second.events == ()
    after = SandboxSession.model_validate({**READY.wire(), "status": dict(second.status)})
    third = plan_of(session=after, history=worlds.a_history(archive), snapshots=[worlds.a_snapshot(archive)])
    assert third == Plan(wake_after=third.wake_after)


def test_the_next_one_moves_the_same_entry() -> None:
    plan = plan_of(history=worlds.a_history(checkpoint(2)), snapshots=[worlds.a_snapshot(checkpoint())])
    (write,) = plan.writes
    assert isinstance(write, WriteStatus)
    assert write.reference.name == f"quill-{worlds.SLOT[:10]}-1"
    assert (write.status["sequence"], write.status["final"]) == (2, False)


@pytest.mark.parametrize(
    "world",
    [
        {"snapshots": Unknown("not listed")},
        {"namespace_terminating": True},
        {"history": worlds.a_history(checkpoint()), "snapshots": [worlds.a_snapshot(checkpoint(2))]},
    ],
    ids=["entries not known", "namespace going", "store behind its index"],
)
def test_no_entry_is_made_where_none_can_or_should_be(world: dict[str, Any]) -> None:
    assert plan_of(**{"history": worlds.a_history(checkpoint()), **world}).writes == ()


def test_somebody_elses_object_under_the_name_is_left_alone_and_the_recovery_point_is_told() -> None:
    theirs = worlds.a_snapshot(checkpoint())
    theirs["metadata"]["labels"] = {}
    plan = plan_of(history=worlds.a_history(checkpoint()), snapshots=[theirs])
    assert plan.writes == ()
    assert plan.status is not None
    assert plan.status["snapshot"]["sequence"] == 1
    assert "name" not in plan.status["snapshot"]


def test_an_entry_that_an_older_schema_cut_short_is_no_reason_to_write_for_ever() -> None:
    entry = worlds.a_snapshot(worlds.an_archive())
    del entry["status"]["final"]
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    world = {"history": worlds.a_history(worlds.an_archive()), "keepers": worlds.a_keeper("Stored")}
    plan = plan_of(session=stopping, snapshots=[entry], **world)
    assert [type(write) for write in plan.writes] == [Delete]


def test_a_checkpoint_is_not_what_a_pod_is_deleted_for() -> None:
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    archive = checkpoint(3)
    world = {"history": worlds.a_history(archive), "snapshots": [worlds.a_snapshot(archive)]}
    plan = plan_of(session=stopping, keepers=running(3, agent_state="Ended"), **world)
    (call,) = plan.calls
    assert isinstance(call, Order)
    assert (call.verb, call.arguments["sequence"], call.arguments["final"]) == ("archive", 4, True)
    assert plan.writes == ()


def test_the_archive_of_a_stop_does_not_wait_for_a_checkpoint_that_runs() -> None:
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    plan = plan_of(session=stopping, keepers=running(archive_state="Running", agent_state="Ended"))
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["archive"]


def test_a_failed_checkpoint_does_not_delay_the_archive_of_a_stop() -> None:
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    keeper = running(archive_state="Failed", agent_state="Ended", archive_code="snapshot_too_large")
    plan = plan_of(session=stopping, keepers=replace(keeper, reported_at=NOW))
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["archive"]
    assert plan.status is None, "what became of a checkpoint is not what this stop waits for"


def test_a_failed_checkpoint_is_told_once_in_our_own_words() -> None:
    failed = {"archive_state": "Failed", "archive_code": "snapshot_store_unavailable"}
    first = plan_of(keepers=running(**failed, archive_message="connection reset by 10.0.0.7"))
    assert told(first, "Snapshotted") == ("Unknown", "CheckpointFailed")
    assert [(event.type, event.reason) for event in first.events] == [("Warning", "CheckpointFailed")]
    assert first.status is not None
    assert first.status["phase"] == "Ready"
    after = SandboxSession.model_validate({**READY.wire(), "status": dict(first.status)})
    again = plan_of(session=after, keepers=running(**failed, archive_message="timed out after 61 s"))
    assert again == Plan(wake_after=again.wake_after)
    during = plan_of(session=after, keepers=running(archive_state="Running"))
    assert during == Plan(wake_after=during.wake_after)
    archive = checkpoint()
    world = {"history": worlds.a_history(archive), "snapshots": [worlds.a_snapshot(archive)]}
    stored = plan_of(session=after, **world)
    assert told(stored, "Snapshotted") == ("True", "Checkpointed")
    assert stored.events == ()


def test_a_store_that_does_not_answer_changes_nothing_that_was_said() -> None:
    archive = checkpoint()
    world = {"history": worlds.a_history(archive), "snapshots": [worlds.a_snapshot(archive)]}
    said = plan_of(**world).status
    assert said is not None
    after = SandboxSession.model_validate({**READY.wire(), "status": dict(said)})
    plan = plan_of(session=after, history=Unknown("no mover answered"))
    assert plan == Plan(wake_after=plan.wake_after)


def test_a_lost_pod_goes_on_from_its_checkpoint_and_the_event_names_it() -> None:
    archive = checkpoint(7)
    plan = plan_of(pods=[], keepers={}, history=worlds.a_history(archive), snapshots=[worlds.a_snapshot(archive)])
    assert plan.status is not None
    assert (plan.status["slot"]["epoch"], plan.status["snapshot"]["sequence"]) == (2, 7)
    (event,) = plan.events
    assert event.reason == "PodLost"
    assert "its last checkpoint is 1-7, made at 2026-03-01T11:00:00Z" in event.message


def test_a_stop_whose_pod_went_first_says_that_the_checkpoint_is_what_there_is() -> None:
    archive = checkpoint(2)
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    world = {"session": stopping, "pods": [], "keepers": {}, "history": worlds.a_history(archive)}
    unindexed = plan_of(**world)
    assert [type(write) for write in unindexed.writes] == [Create, WriteStatus]
    assert unindexed.status is None
    plan = plan_of(**world, snapshots=[worlds.a_snapshot(archive)])
    assert told(plan, "Snapshotted") == ("False", "PodLost")
    assert plan.status is not None
    assert plan.status["snapshot"]["sequence"] == 2
    assert [event.reason for event in plan.events] == ["WorkspaceLost", "Suspended"]


def test_the_lowest_number_of_a_final_archive_is_above_all_that_anybody_knows() -> None:
    status = worlds.a_status("Stopping", snapshot={"epoch": 1, "sequence": 8})
    stopping = worlds.a_session({"operatingMode": "Suspended"}, status)
    ended = worlds.a_keeper("Ended")
    (call,) = plan_of(session=stopping, keepers=ended).calls
    assert isinstance(call, Order)
    assert call.arguments["sequence"] == 9, "also where the store of now never saw the checkpoints"


# How full.


def full(level: str, **report: Any) -> Any:
    return worlds.a_keeper("Open", guard=replace(GUARDED, level=level), **report)


@pytest.mark.parametrize("level", ["Normal", "High"])
def test_below_its_size_nothing_is_said(level: str) -> None:
    plan = plan_of(keepers=full(level))
    assert plan == Plan(wake_after=plan.wake_after)


def test_a_rise_to_full_is_told_once_and_a_fall_takes_it_back() -> None:
    rise = plan_of(keepers=full("Full"))
    assert told(rise, "WorkspaceReady") == ("True", "WorkspaceFull")
    assert [(event.type, event.reason) for event in rise.events] == [("Warning", "WorkspaceFull")]
    assert rise.status is not None
    after = SandboxSession.model_validate({**READY.wire(), "status": dict(rise.status)})
    still = plan_of(session=after, keepers=full("Full"))
    assert still == Plan(wake_after=still.wake_after)
    silent = plan_of(session=after, keepers=worlds.a_keeper("Open", guard=None))
    assert silent.status is None, "a keeper that started again has not said yet"
    fall = plan_of(session=after, keepers=full("Normal"))
    assert told(fall, "WorkspaceReady") == ("True", "Verified")
    assert fall.events == ()


def test_at_the_limit_the_session_stops_and_says_what_to_do() -> None:
    plan = plan_of(keepers=full("Critical"))
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Stopping", "WorkspaceFull")
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["end"]
    (event,) = plan.events
    assert (event.type, event.reason) == ("Warning", "WorkspaceFull")
    assert "Raise workspace.size" in event.message


@pytest.mark.parametrize(
    "world",
    [
        {"pods": [worlds.a_pod(terminating_for=1)], "keepers": full("Critical")},
        {"keepers": worlds.a_keeper("Ready", guard=Guard("Critical"))},
    ],
    ids=["going anyway", "never opened"],
)
def test_only_an_open_pod_that_nobody_deletes_is_stopped_for_it(world: dict[str, Any]) -> None:
    plan = plan_of(**world)
    assert plan.status is None or plan.status.get("stopReason") is None


# A pod that somebody else deletes.


def test_a_keeper_with_a_final_grant_is_watched_and_not_told() -> None:
    for seconds in (1, 4, 9):
        plan = plan_of(pods=[worlds.a_pod(terminating_for=seconds)], keepers=worlds.a_keeper("Ended"))
        assert plan.calls == ()


@pytest.mark.parametrize("kept", [None, worlds.Kept(0, 0), worlds.Kept(0, int(NOW.timestamp()) - 1)])
def test_a_keeper_without_one_is_told(kept: Any) -> None:
    plan = plan_of(pods=[worlds.a_pod(terminating_for=4)], keepers=worlds.a_keeper("Ended", kept=kept))
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["archive"]


def test_where_no_kubelet_ends_the_agent_the_operator_does_it() -> None:
    def verbs(seconds: float, **report: Any) -> list[str]:
        keeper = worlds.a_keeper("Open", **report)
        plan = plan_of(pods=[worlds.a_pod(terminating_for=seconds)], keepers=keeper)
        return [call.verb for call in plan.calls if isinstance(call, Order)]

    assert verbs(5) == []
    assert verbs(11) == ["end"]
    assert verbs(11, agent_state="Ended") == ["archive"]
    assert verbs(26) == ["archive"], "an agent that was told to end so long ago has ended, whatever is said"
    assert verbs(26, archive_state="Running", archive_is_final=True) == []


def test_an_entry_that_cannot_be_written_keeps_no_order_from_a_keeper_whose_pod_goes() -> None:
    keeper = worlds.a_keeper("Ended", kept=None)
    world = {"history": worlds.a_history(checkpoint()), "keepers": keeper}
    plan = plan_of(pods=[worlds.a_pod(terminating_for=4)], **world)
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["archive"]
    assert plan.writes == ()


def test_what_it_stored_by_itself_gets_its_entry_while_the_pod_goes() -> None:
    world = {"pods": [worlds.a_pod(terminating_for=4)], "keepers": worlds.a_keeper("Stored")}
    plan = plan_of(history=worlds.a_history(worlds.an_archive()), **world)
    assert [type(write) for write in plan.writes] == [Create, WriteStatus]
    assert plan.calls == ()
    entry = worlds.a_snapshot(worlds.an_archive())
    named = plan_of(history=worlds.a_history(worlds.an_archive()), snapshots=[entry], **world)
    assert told(named, "Snapshotted") == ("True", "Stored")


def test_an_agent_that_ends_with_its_deleted_pod_did_not_exit_by_itself() -> None:
    def phase(**report: Any) -> str | None:
        plan = plan_of(keepers=worlds.a_keeper("Ended", **report))
        return plan.status["phase"] if plan.status is not None else None

    assert phase(ago=0.5) is None, "the watch may not have told of the deletion yet"
    assert phase(ago=50, archive_state="Stored", archive_is_final=True) is None, "nobody ordered that archive"
    assert phase(ago=600, archive_state="Running", archive_is_final=True) is None, "it is made now"
    assert phase(ago=60) == "Stopping"


@pytest.mark.parametrize("state", ["Stored", "Failed"])
@pytest.mark.parametrize(
    "report", [{}, {"challenge": "0" * 32}, {"agent_state": "Running"}, {"agent_state": "Unknown"}]
)
def test_a_keeper_that_left_in_a_pod_that_nobody_deletes_stops_its_session(state: str, report: dict[str, str]) -> None:
    """Its container was made to start again (another image, a newer kubelet): it opens no more."""
    left = worlds.a_keeper("Ended", ago=61, archive_state=state, archive_is_final=True, **report)
    plan = plan_of(keepers=left, history=worlds.a_history(worlds.an_archive()))
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Stopping", "AgentExited")
    assert told(plan, "Ready") == ("False", "AgentFailed"), "whatever the exit code of an init without an agent"


def test_a_keeper_that_left_without_a_grant_stops_its_session_too() -> None:
    """It ends every init that comes, and none of them ever gets a word."""
    left = worlds.a_keeper("Ended", ago=61, challenge="0" * 32, kept=None)
    plan = plan_of(keepers=left)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Stopping", "AgentExited")
    assert told(plan, "Ready") == ("False", "AgentFailed")


def test_a_stop_whose_entry_is_ahead_of_the_store_says_what_it_waits_for() -> None:
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    entry = worlds.a_snapshot(worlds.an_archive(1, 7, final=False))
    world = {"history": worlds.a_history(worlds.an_archive(1, 3)), "keepers": worlds.a_keeper("Stored")}
    plan = plan_of(session=stopping, snapshots=[entry], **world)
    assert plan.writes == ()
    assert told(plan, "Snapshotted") == ("False", "ManifestMissing")


# Archives that are turned off.


def test_a_run_that_began_with_archives_ends_with_one() -> None:
    off = worlds.a_sandbox({"snapshot": {"onStop": False}})
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping", archivesOnStop=True))
    world = {"sandbox": off, "session": stopping, "keepers": worlds.a_keeper("Ended")}
    plan = plan_of(**world)
    assert [call.verb for call in plan.calls if isinstance(call, Order)] == ["archive"]
    assert plan.writes == ()


def test_a_run_that_began_without_ends_without_or_with_as_is_said_now() -> None:
    off = worlds.a_sandbox({"snapshot": {"onStop": False}})
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping", archivesOnStop=False))
    world = {"session": stopping, "keepers": worlds.a_keeper("Ended")}
    assert [type(write) for write in plan_of(sandbox=off, **world).writes] == [Delete]
    assert [call.verb for call in plan_of(**world).calls if isinstance(call, Order)] == ["archive"]


def test_a_start_notes_what_is_said_and_a_rest_forgets_it() -> None:
    for on_stop in (True, False):
        sandbox = worlds.a_sandbox({"snapshot": {"onStop": on_stop}})
        plan = plan_session(worlds.a_world(sandbox=sandbox, history=worlds.a_history()))
        assert plan.status is not None
        assert plan.status["archivesOnStop"] is on_stop
    stopping = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Stopping"))
    world = {"history": worlds.a_history(worlds.an_archive()), "snapshots": [worlds.a_snapshot()]}
    done = plan_of(session=stopping, pods=[], keepers={}, **world)
    assert done.status is not None
    assert "archivesOnStop" not in done.status


# A pod that is taken again and again.


def test_a_pod_that_somebody_took_before_it_opened_counts_as_lost() -> None:
    starting = worlds.a_session(status=worlds.a_status("Starting"))
    world = {"session": starting, "pods": [], "keepers": {}, "history": worlds.a_history()}
    assert [type(write) for write in plan_of(**world).writes] == [Create]
    plan = plan_of(**world, posted_epoch=1)
    assert plan.writes == ()
    assert plan.status is not None
    assert (plan.status["slot"]["epoch"], plan.status["restarts"]) == (2, 1)
    assert plan.events == (), "no work was in it"
    tired = worlds.a_session(status=worlds.a_status("Starting", restarts=5))
    last = plan_of(**{**world, "session": tired}, posted_epoch=1)
    assert last.status is not None
    assert last.status["phase"] == "Failed"


def test_a_world_of_a_day_later_is_as_settled() -> None:
    keeper = worlds.a_keeper("Open", kept=worlds.Kept(2**40, 2**40))
    world = worlds.a_world(
        session=READY, pods=[worlds.a_pod()], history=FENCED, keepers=keeper, now=NOW + timedelta(days=1)
    )
    plan = plan_session(world)
    assert plan == Plan(wake_after=plan.wake_after)
    assert isinstance(world.pods, Present)
