"""Single passes over a session: one world, one plan."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sandhold import names
from sandhold.desired.plan import Apply, Create, Delete, Event, Fence, Order, Plan, to_yaml
from sandhold.desired.pod import grace_seconds
from sandhold.desired.session import plan_session
from sandhold.desired.world import ABSENT, Present, StoreTrouble, Unknown
from sandhold.reasons import RefusalCode, refuse
from testkit import laws, worlds
from testkit.worlds import NOW

UNKNOWN = Unknown("no answer")


def plan_of(**world: Any) -> Plan:
    return laws.every_session_law(worlds.a_world(**world))


def starting(epoch: int = 1, **status: Any) -> Any:
    return worlds.a_session(status=worlds.a_status("Starting", epoch, **status))


def ready(**changes: Any) -> Any:
    return worlds.a_session(changes.pop("spec", None), worlds.a_status("Ready"), **changes)


def stopping(since: float = 20, **metadata: Any) -> Any:
    status = worlds.a_status("Stopping", since=NOW - timedelta(seconds=since))
    return worlds.a_session({"operatingMode": "Suspended"}, status, **metadata)


def told(plan: Plan, name: str = "Ready") -> tuple[str, str]:
    assert plan.status is not None
    found = next(one for one in plan.status["conditions"] if one["type"] == name)
    return found["status"], found["reason"]


def verbs(plan: Plan) -> list[str]:
    return ["fence" if isinstance(call, Fence) else call.verb for call in plan.calls]


FENCED = worlds.a_history(worlds.a_fence())


# A start.


def test_an_epoch_is_above_everything_that_anybody_may_have_used() -> None:
    stored = worlds.a_history(worlds.a_fence(7, worlds.an_archive(5)), worlds.an_archive(5))
    plan = plan_of(history=stored, snapshots=[worlds.a_snapshot(worlds.an_archive(5))])
    assert plan.status is not None
    assert plan.status["slot"]["epoch"] == 8
    plan = plan_of(pods=[worlds.a_pod(9)])
    assert plan.status is not None
    assert plan.status["slot"]["epoch"] == 10


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        ({"history": UNKNOWN}, "SnapshotStoreUnavailable"),
        ({"history": StoreTrouble("snapshot_store_unavailable", "503", retryable=True)}, "SnapshotStoreUnavailable"),
        ({"snapshots": UNKNOWN}, "SnapshotsUnknown"),
        ({"sandbox": UNKNOWN}, "ClusterUnknown"),
        ({"installation": worlds.an_installation(runtime_classes=UNKNOWN)}, "ClusterUnknown"),
    ],
)
def test_what_is_not_known_is_waited_for_before_an_epoch_is_taken(world: dict[str, Any], reason: str) -> None:
    plan = plan_of(**world)
    assert told(plan) == ("False", reason)
    assert plan.status is not None
    assert "slot" not in plan.status
    assert plan.finalizer_add is None
    assert plan.wake_after is not None


@pytest.mark.parametrize(
    ("world", "code"),
    [
        ({"sandbox": ABSENT}, "sandbox_unavailable"),
        ({"sandbox": worlds.a_sandbox(deletionTimestamp="2026-03-01T11:00:00Z")}, "sandbox_unavailable"),
        ({"sandbox": worlds.a_sandbox({"tier": "kata"})}, "runtime_class_mismatch"),
        ({"sandbox": worlds.a_sandbox({"tier": "gone"})}, "runtime_class_missing"),
        ({"history": StoreTrouble("invalid_snapshot", "the MAC is wrong", retryable=False)}, "invalid_snapshot"),
        ({"history": StoreTrouble("unheard_of", "?", retryable=False)}, "invalid_snapshot"),
        ({"snapshots": [worlds.a_snapshot(worlds.an_archive(2))]}, "manifest_missing"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_exists(world: dict[str, Any], code: str) -> None:
    plan = plan_of(**world)
    assert plan.writes == ()
    assert plan.finalizer_add is None
    assert plan.status is not None
    assert plan.status["phase"] == "Failed"
    assert plan.status["refusal"]["code"] == code
    assert [event.type for event in plan.events] == ["Warning"]


def test_a_refusal_is_told_once_and_ends_by_itself() -> None:
    first = plan_of(sandbox=ABSENT)
    refused = worlds.a_session(status=dict(first.status or {}))
    again = plan_of(sandbox=ABSENT, session=refused)
    assert (again.status, again.events) == (None, ())
    healed = plan_of(session=refused)
    assert healed.status is not None
    assert healed.status["phase"] == "Starting"
    assert "refusal" not in healed.status


def test_a_session_at_rest_that_is_refused_stays_at_rest() -> None:
    session = worlds.a_session(status=worlds.a_status("Suspended"))
    plan = plan_of(session=session, sandbox=ABSENT)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["refusal"]["code"]) == ("Suspended", "sandbox_unavailable")
    back = worlds.a_session({"operatingMode": "Suspended"}, dict(plan.status))
    rested = plan_of(session=back, sandbox=ABSENT)
    assert rested.status is not None
    assert "refusal" not in rested.status


def test_a_missing_archive_is_found_by_the_sessions_own_status_too() -> None:
    status = worlds.a_status("Suspended", snapshot={"epoch": 4, "sequence": 1})
    plan = plan_of(session=worlds.a_session(status=status))
    assert plan.status is not None
    assert plan.status["refusal"]["code"] == "manifest_missing"


@pytest.mark.parametrize(
    "world",
    [
        {"policy": ABSENT},
        {"policy": UNKNOWN},
        {"service_account": ABSENT},
        {"policy": Present({**worlds.a_policy(), "spec": {}})},
        {"policy": Present({**worlds.a_policy(), "metadata": {"name": "coder-996b0bc362", "labels": {}}})},
        {"installation": worlds.an_installation(mover_address=UNKNOWN)},
        {"installation": worlds.an_installation(mover_ca=ABSENT)},
        {"squatter": UNKNOWN},
    ],
)
def test_no_pod_before_everything_that_it_needs_is_seen(world: dict[str, Any]) -> None:
    assert plan_of(session=starting(since=NOW), **world) == Plan(wake_after=pytest.approx(2, abs=4))


def test_a_refused_create_is_told_and_then_tried_again() -> None:
    refusal = refuse(RefusalCode.QUOTA_EXCEEDED, "Pod quill: exceeded quota")
    plan = plan_of(session=starting(), create_refused=refusal)
    assert plan.writes == ()
    assert plan.status is not None
    assert plan.status["refusal"]["code"] == "quota_exceeded"
    assert plan.status["phase"] == "Starting"
    again = plan_of(session=worlds.a_session(status=dict(plan.status)), create_refused=refusal)
    assert [type(write) for write in again.writes] == [Create]
    assert again.status is None
    assert again.wake_after == 15
    made = plan_of(session=worlds.a_session(status=dict(plan.status)), pods=[worlds.a_pod()])
    assert told(made) == ("False", "Starting")
    assert made.status is not None
    assert "refusal" not in made.status


def test_another_tier_before_the_pod_is_taken_up() -> None:
    plan = plan_of(session=starting(), sandbox=worlds.a_sandbox({"tier": "runc"}))
    assert plan.status is not None
    assert (plan.status["tier"], plan.status["slot"]["epoch"]) == ("runc", 1)
    assert plan.writes == ()


def test_a_pod_of_an_older_spec_is_replaced_while_its_gate_is_shut() -> None:
    older = worlds.a_pod(sandbox=worlds.a_sandbox({"image": "agent:older"}))
    plan = plan_of(session=starting(), pods=[older], keepers=worlds.a_keeper("Ready"))
    assert [write.uid for write in plan.writes if isinstance(write, Delete)] == [worlds.pod_uid()]
    assert plan.calls == ()


def test_a_shut_pod_that_somebody_deletes_is_replaced_and_counted() -> None:
    going = worlds.a_pod(terminating_for=1)
    plan = plan_of(session=starting(), pods=[going])
    assert plan.status is not None
    assert (plan.status["slot"]["epoch"], plan.status["restarts"]) == (2, 1)
    last = plan_of(session=starting(restarts=5), pods=[going])
    assert last.status is not None
    assert last.status["refusal"]["code"] == "sandbox_create_failed"


def test_a_shut_pod_that_we_threw_away_is_waited_for_and_not_counted() -> None:
    older = worlds.a_pod(sandbox=worlds.a_sandbox({"image": "agent:older"}), terminating_for=1)
    assert plan_of(session=starting(), pods=[older]) == Plan(wake_after=5)


def test_a_pod_of_another_epoch_is_named_and_not_waited_for_in_silence() -> None:
    """What an etcd that was restored leaves: a status that does not know the pod."""
    left = {"pods": [worlds.a_pod(3)], "keepers": worlds.a_keeper("Open", epoch=3)}
    world = {**left, "history": worlds.a_history(worlds.a_fence(3))}
    moments_ago = worlds.a_status("Starting", 4, since=worlds.NOW - timedelta(seconds=1))
    assert plan_of(session=worlds.a_session(status=moments_ago), **world) == Plan(wake_after=5)
    plan = plan_of(session=worlds.a_session(status=worlds.a_status("Starting", 4)), **world)
    assert told(plan, "PodReady") == ("False", "OtherPodPresent")
    assert plan.status is not None
    (said,) = (one["message"] for one in plan.status["conditions"] if one["type"] == "PodReady")
    assert worlds.a_pod(3)["metadata"]["name"] in said
    assert not plan.writes


def test_a_pod_that_no_kubelet_takes_is_not_made_for_ever() -> None:
    dead = worlds.a_pod(is_dead=True)
    plan = plan_of(session=starting(), pods=[dead])
    assert [type(write) for write in plan.writes] == [Delete]
    assert plan.status is not None
    assert (plan.status["slot"]["epoch"], plan.status["restarts"]) == (2, 1)
    assert plan.events == ()
    last = plan_of(session=starting(restarts=5), pods=[dead])
    assert last.status is not None
    assert last.status["phase"] == "Failed"


def test_a_pod_that_ran_is_not_compared_any_more() -> None:
    older = worlds.a_pod(sandbox=worlds.a_sandbox({"image": "agent:older"}))
    plan = plan_of(session=ready(), pods=[older], keepers=worlds.a_keeper("Open"), history=FENCED)
    assert plan == Plan(wake_after=plan.wake_after)


def test_a_sandbox_refused_in_mid_start_takes_its_shut_pod_along() -> None:
    plan = plan_of(session=starting(), pods=[worlds.a_pod()], sandbox=ABSENT)
    assert [type(write) for write in plan.writes] == [Delete]
    assert plan.status is not None
    assert plan.status["phase"] == "Failed"
    assert "stopReason" not in plan.status


def test_the_workspace_is_prepared_with_what_the_store_holds() -> None:
    archive = worlds.an_archive(1)
    world = {"session": starting(2), "pods": [worlds.a_pod(2)], "history": worlds.a_history(archive)}
    plan = plan_of(keepers=worlds.a_keeper("Empty", epoch=2), snapshots=[worlds.a_snapshot(archive)], **world)
    assert verbs(plan) == ["entries", "prepare"]
    prepare = plan.calls[-1]
    assert isinstance(prepare, Order)
    assert prepare.arguments["source"] == {"epoch": 1, "sequence": 1}
    assert prepare.arguments["writeEntries"] is True
    assert prepare.grant is not None
    assert prepare.grant["verb"] == "restore"


def test_a_repaired_workspace_keeps_its_own_files() -> None:
    plan = plan_of(
        session=starting(2, restarts=1, startedAt="2026-03-01T11:00:00Z"),
        pods=[worlds.a_pod(2)],
        history=worlds.a_history(worlds.an_archive(1)),
        keepers=worlds.a_keeper("Empty", epoch=2),
    )
    prepare = plan.calls[-1]
    assert isinstance(prepare, Order)
    assert prepare.arguments["writeEntries"] is False


@pytest.mark.parametrize(
    ("code", "told_code"),
    [
        ("invalid_snapshot", "invalid_snapshot"),
        ("workspace_setup_failed", "workspace_setup_failed"),
        ("nonsense", "workspace_setup_failed"),
        ("", "workspace_setup_failed"),
    ],
)
def test_a_workspace_that_cannot_be_is_refused_and_its_pod_goes(code: str, told_code: str) -> None:
    keeper = worlds.a_keeper("Failed", workspace_code=code, workspace_message="entry ../x escapes")
    plan = plan_of(session=starting(), pods=[worlds.a_pod()], keepers=keeper)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["refusal"]["code"]) == ("Failed", told_code)
    assert "entry ../x escapes" in plan.status["refusal"]["message"]
    assert [type(write) for write in plan.writes] == [Delete]


def test_a_failed_fetch_rests_before_it_is_tried_again_and_does_not_flap() -> None:
    keeper = worlds.a_keeper("Failed", ago=1, workspace_code="snapshot_store_unavailable", workspace_message="503")
    world = {"pods": [worlds.a_pod()], "history": worlds.a_history()}
    first = plan_of(session=starting(), keepers=keeper, **world)
    assert first.calls == ()
    assert told(first, "WorkspaceReady") == ("False", "SnapshotStoreUnavailable")
    said = worlds.a_session(status=dict(first.status or {}))
    due = plan_of(session=said, keepers=replace(keeper, reported_at=NOW - timedelta(seconds=60)), **world)
    assert verbs(due) == ["entries", "prepare"]
    assert due.status is None
    under_way = plan_of(session=said, keepers=worlds.a_keeper("Preparing"), **world)
    assert (under_way.calls, under_way.status) == ((), None)


def test_a_marker_of_another_slot_or_epoch_is_refused() -> None:
    for marker in ({"marker_epoch": 7}, {"marker_slot": "another"}, {"marker_epoch": None}):
        plan = plan_of(session=starting(), pods=[worlds.a_pod()], keepers=worlds.a_keeper("Ready", **marker))
        assert plan.status is not None
        assert plan.status["refusal"]["code"] == "workspace_setup_failed"


@pytest.mark.parametrize("source", [None, (1, 1)])
def test_a_workspace_that_is_not_the_one_a_start_gets_now_opens_nothing(source: tuple[int, int] | None) -> None:
    """A pod that was given up stored its archive late: its successor, not open yet, begins again from that."""
    late = worlds.a_history(worlds.an_archive(2))
    world = {"session": starting(3), "pods": [worlds.a_pod(3)], "history": late}
    plan = plan_of(keepers=worlds.a_keeper("Ready", epoch=3, marker_source=source), **world)
    assert [write.uid for write in plan.writes if isinstance(write, Delete)] == [worlds.pod_uid(3)]
    assert plan.calls == ()
    fitting = plan_of(keepers=worlds.a_keeper("Ready", epoch=3, marker_source=(2, 1)), **world)
    assert verbs(fitting) == ["fence", "open"]


def test_evidence_of_another_start_of_init_opens_nothing() -> None:
    for report in ({"challenge": "d" * 32}, {"evidence": None}, {"challenge": ""}):
        plan = plan_of(session=starting(), pods=[worlds.a_pod()], keepers=worlds.a_keeper("Ready", **report))
        assert "open" not in verbs(plan)


def test_walls_that_went_since_keep_the_gate_shut() -> None:
    plan = plan_of(session=starting(), pods=[worlds.a_pod()], keepers=worlds.a_keeper("Ready"), policy=ABSENT)
    assert plan.calls == ()
    assert told(plan, "EgressVerified") == ("False", "WallsMissing")


def test_a_keeper_that_is_away_is_given_no_orders() -> None:
    for stage in ("Empty", "Ready"):
        keeper = worlds.a_keeper(stage, connected=False)
        assert plan_of(session=starting(), pods=[worlds.a_pod()], keepers=keeper).calls == ()


def test_a_fence_is_written_once_and_the_word_may_be_repeated() -> None:
    world = {"session": starting(), "pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Ready")}
    assert verbs(plan_of(**world)) == ["fence", "open"]
    assert verbs(plan_of(history=FENCED, **world)) == ["open"]
    assert verbs(plan_of(fenced_epoch=1, **world)) == ["open"]


def test_without_archives_there_is_no_fence() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"onStop": False}})
    world = {"sandbox": sandbox, "history": ABSENT, "pods": [worlds.a_pod(sandbox=sandbox)]}
    assert verbs(plan_of(session=starting(archivesOnStop=False), keepers=worlds.a_keeper("Ready"), **world)) == ["open"]


def test_a_newer_epoch_in_the_store_ends_a_start() -> None:
    history = worlds.a_history(worlds.a_fence(5))
    world = {"session": starting(), "pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Ready")}
    plan = plan_of(history=history, **world)
    assert verbs(plan) == ["end"]
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["refusal"]["code"]) == ("Stopping", "stale_generation")


def test_ready_waits_for_the_pods_address() -> None:
    pod = worlds.a_pod()
    del pod["status"]["podIP"]
    plan = plan_of(session=starting(), pods=[pod], keepers=worlds.a_keeper("Open"), history=FENCED)
    assert plan.status is None


# A running session.


@pytest.mark.parametrize(
    "world",
    [
        {},
        {"sandbox": UNKNOWN},
        {"sandbox": ABSENT},
        {"history": UNKNOWN},
        {"snapshots": UNKNOWN},
        {"policy": ABSENT},
        {"installation": worlds.an_installation(runtime_classes=Present({}))},
        {"keepers": worlds.a_keeper("Open", connected=False)},
        {"keepers": {}},
    ],
)
def test_a_running_session_is_left_alone_whatever_is_missing(world: dict[str, Any]) -> None:
    known = {"session": ready(), "pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Open"), "history": FENCED}
    plan = plan_of(**{**known, **world})
    assert plan == Plan(wake_after=plan.wake_after)


def test_nothing_is_concluded_while_the_pods_are_not_known() -> None:
    for session in (starting(), ready(), stopping(), stopping(deletionTimestamp="2026-03-01T12:00:00Z")):
        assert plan_of(session=session, pods=UNKNOWN) == Plan(wake_after=5)


def test_a_mover_that_moved_is_told_to_the_pod() -> None:
    installation = worlds.an_installation(mover_address=Present("10.96.0.99:7443"))
    known = {"session": ready(), "pods": [worlds.a_pod()], "history": FENCED}
    plan = plan_of(installation=installation, keepers=worlds.a_keeper("Open"), **known)
    (patch,) = plan.writes
    assert isinstance(patch, Apply)
    assert patch.object["metadata"]["annotations"][names.ANNOTATION_MOVER_ADDRESS] == "10.96.0.99:7443"


def test_a_new_time_limit_is_taken_up_by_a_running_session() -> None:
    session = worlds.a_session({"ttlSeconds": 600}, worlds.a_status("Ready"), generation=2)
    plan = plan_of(session=session, pods=[worlds.a_pod()], keepers=worlds.a_keeper("Open"), history=FENCED)
    assert plan.status is not None
    assert plan.status["expiresAt"] == "2026-03-01T12:09:40Z"
    assert plan.status["observedGeneration"] == 2
    assert plan.wake_after == 580


def test_an_unverifiable_restart_is_archived_and_not_thrown_away() -> None:
    evidence = worlds.some_evidence(canary="Connected")
    keeper = worlds.a_keeper("Ready", opened="e" * 32, evidence=evidence)
    plan = plan_of(session=ready(), pods=[worlds.a_pod()], keepers=keeper, history=FENCED)
    assert plan.writes == ()
    assert verbs(plan) == ["end"]
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["stopReason"]) == ("Stopping", "Refused")


def test_a_keeper_that_has_not_said_yet_how_it_is_changes_nothing() -> None:
    """A mover tells of a connection before the first report: a mover's rollout must not make every session flap."""
    unheard = replace(worlds.a_keeper("Open"), report=None)
    quiet = plan_of(session=ready(), pods=[worlds.a_pod()], keepers=unheard, history=FENCED)
    assert replace(quiet, wake_after=None) == Plan()
    plan = plan_of(session=stopping(), pods=[worlds.a_pod()], keepers=unheard, history=FENCED)
    assert (plan.writes, plan.calls) == ((), ())
    assert told(plan, "Snapshotted") == ("False", "KeeperSilent")


# A stop.


def test_the_agent_is_told_to_end_in_every_pass_until_it_has() -> None:
    world = {"pods": [worlds.a_pod()], "history": FENCED}
    for since in (1, 9, 14):
        keeper = worlds.a_keeper("Open", ago=since)
        assert verbs(plan_of(session=stopping(since), keepers=keeper, **world)) == ["end"]
    assert verbs(plan_of(session=stopping(16), keepers=worlds.a_keeper("Open", ago=16), **world)) == ["archive"]


def test_only_the_time_since_somebody_could_tell_it_counts() -> None:
    world = {"session": stopping(600), "pods": [worlds.a_pod()], "history": FENCED}
    assert verbs(plan_of(keepers=worlds.a_keeper("Open", ago=3), **world)) == ["end"]
    silent = replace(worlds.a_keeper("Open"), connected_since=None)
    assert verbs(plan_of(keepers=silent, **world)) == ["end"]


def test_a_pod_that_was_open_when_its_stop_began_stays_whatever_the_store_says_later() -> None:
    """An agent that ended before its session was Ready; then the configuration names another store as the first one."""
    ended = worlds.a_keeper("Ended", agent_exit_code=1)
    first = plan_of(session=starting(), pods=[worlds.a_pod()], keepers=ended, history=FENCED)
    assert first.status is not None
    assert first.status["phase"] == "Stopping"
    later = {"session": worlds.a_session(status=dict(first.status)), "pods": [worlds.a_pod()]}
    assert plan_of(**later, history=worlds.a_history()).writes == ()
    dead = plan_of(**later | {"pods": []}, history=worlds.a_history())
    assert told(dead, "Snapshotted") == ("False", "PodLost")


def test_an_archive_has_the_number_after_the_last_of_its_epoch() -> None:
    head = worlds.an_archive(1, 4, final=False)
    plan = plan_of(
        session=stopping(), pods=[worlds.a_pod()], keepers=worlds.a_keeper("Ended"), history=worlds.a_history(head)
    )
    (order,) = plan.calls
    assert isinstance(order, Order)
    assert order.arguments["sequence"] == 5
    assert order.grant is not None
    assert order.grant["sequence"] == 5


def test_an_archive_under_way_is_left_alone_and_what_held_it_up_stands() -> None:
    world = {"pods": [worlds.a_pod()], "history": FENCED}
    failed = worlds.a_keeper(
        "Ended", ago=1, archive_state="Failed", archive_sequence=1, archive_code="invalid_snapshot"
    )
    first = plan_of(session=stopping(), keepers=failed, **world)
    assert first.calls == ()
    said = worlds.a_session({"operatingMode": "Suspended"}, dict(first.status or {}))
    running = worlds.a_keeper("Ended", archive_state="Running", archive_sequence=1)
    again = plan_of(session=said, keepers=running, **world)
    assert (again.calls, again.status, again.events) == ((), None, ())


def test_a_stored_archive_that_the_store_does_not_list_is_made_again_after_a_while() -> None:
    world = {"session": stopping(), "pods": [worlds.a_pod()], "history": FENCED}
    assert plan_of(keepers=worlds.a_keeper("Stored", ago=2), **world).calls == ()
    (order,) = plan_of(keepers=worlds.a_keeper("Stored", ago=60), **world).calls
    assert isinstance(order, Order)
    assert order.arguments["sequence"] == 2


def test_a_stale_holders_archive_is_told_and_not_made_for_ever() -> None:
    history = worlds.a_history(worlds.an_archive(5))
    world = {"session": stopping(), "pods": [worlds.a_pod()], "history": history}
    plan = plan_of(keepers=worlds.a_keeper("Stored", ago=600), **world)
    assert plan.calls == ()
    assert plan.writes == ()
    assert told(plan, "Snapshotted") == ("False", "StaleGeneration")


def test_a_silent_keeper_is_waited_for_and_told() -> None:
    keeper = worlds.a_keeper("Ended", connected=False)
    world = {"pods": [worlds.a_pod()], "keepers": keeper, "history": FENCED}
    assert plan_of(session=stopping(5), **world) == Plan(wake_after=2)
    plan = plan_of(session=stopping(30), **world)
    assert told(plan, "Snapshotted") == ("False", "KeeperSilent")
    assert plan.writes == ()


def test_a_fenced_gate_that_a_keeper_says_was_never_opened_settles_first() -> None:
    world = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Ready"), "history": FENCED}
    unready = {**worlds.a_status("Starting"), "phase": "Stopping", "stopReason": "Requested"}

    def since(seconds: float) -> Any:
        moment = worlds.time_text(NOW - timedelta(seconds=seconds))
        conditions = [
            {**one, "status": "False", "lastTransitionTime": moment} if one["type"] == "Snapshotted" else one
            for one in unready["conditions"]
        ]
        return worlds.a_session({"operatingMode": "Suspended"}, {**unready, "conditions": conditions})

    assert verbs(plan_of(session=since(2), **world)) == ["end"]
    settled = plan_of(session=since(6), **world)
    assert [write.cause for write in settled.writes if isinstance(write, Delete)] == ["its gate was never opened"]


def test_in_a_namespace_that_is_going_the_manifest_suffices() -> None:
    world = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Stored")}
    plan = plan_of(
        session=stopping(), history=worlds.a_history(worlds.an_archive()), namespace_terminating=True, **world
    )
    assert [type(write) for write in plan.writes] == [Delete]


def test_a_foreign_entry_of_the_archives_name_is_told_and_the_pod_stays() -> None:
    theirs = worlds.a_snapshot()
    theirs["metadata"]["labels"] = {}
    world = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Stored"), "snapshots": [theirs]}
    plan = plan_of(session=stopping(), history=worlds.a_history(worlds.an_archive()), **world)
    assert plan.writes == ()
    assert told(plan, "Snapshotted") == ("False", "ForeignObject")


def test_a_keeper_that_forgot_its_word_is_not_asked_in_circles() -> None:
    keeper = worlds.a_keeper("Ready", agent_state="Running")
    plan = plan_of(session=stopping(), pods=[worlds.a_pod()], keepers=keeper, history=FENCED)
    assert plan.wake_after is not None
    assert plan.wake_after >= 1


def test_a_workspace_without_evidence_is_asked_for_some_but_not_at_once() -> None:
    world = {"session": starting(), "pods": [worlds.a_pod()]}
    assert plan_of(keepers=worlds.a_keeper("Ready", evidence=None, ago=1), **world).calls == ()
    assert verbs(plan_of(keepers=worlds.a_keeper("Ready", evidence=None, ago=4), **world)) == ["prepare"]


def test_a_dead_pods_object_is_removed_and_its_loss_told() -> None:
    dead = worlds.a_pod(is_dead=True)
    plan = plan_of(session=stopping(), pods=[dead], history=FENCED)
    assert [type(write) for write in plan.writes] == [Delete]
    gone = plan_of(session=stopping(), history=FENCED)
    assert told(gone, "Snapshotted") == ("False", "PodLost")
    assert [event.reason for event in gone.events] == ["WorkspaceLost", "Suspended"]


def test_a_pod_lost_while_the_store_was_away_is_not_forgotten() -> None:
    """Node and store go together, and the session is deleted before the store is back: its loss is still told."""
    down = StoreTrouble("snapshot_store_unavailable", "down", retryable=True)
    first = plan_of(session=ready(), history=down)
    assert told(first) == ("False", "SnapshotStoreUnavailable")
    going = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": [names.FINALIZER_WORKSPACE]}
    left = worlds.a_session(status=dict(first.status or {}), **going)
    waiting = plan_of(session=left, history=down)
    assert waiting.finalizer_remove is None
    assert told(waiting, "Snapshotted") == ("False", "SnapshotStoreUnavailable")
    back = plan_of(session=left, history=FENCED)
    assert [event.reason for event in back.events] == ["WorkspaceLost"]
    assert back.finalizer_remove == names.FINALIZER_WORKSPACE


def test_a_pod_that_does_not_go_is_told() -> None:
    stuck = worlds.a_pod(terminating_for=100)
    plan = plan_of(session=stopping(), pods=[stuck], history=worlds.a_history(worlds.an_archive()))
    assert told(plan, "Snapshotted") == ("False", "DestroyUnconfirmed")
    assert plan.finalizer_remove is None


def test_pods_of_other_epochs_go_only_when_nothing_can_be_lost_with_them() -> None:
    deleted = worlds.a_session(
        status=worlds.a_status("Stopping", 2), deletionTimestamp="2026-03-01T12:00:00Z", finalizers=[FINALIZER]
    )
    stored = worlds.a_history(worlds.an_archive(2))
    plan = plan_of(session=deleted, pods=[worlds.a_pod(1)], history=stored)
    assert plan.writes == ()
    assert told(plan, "Snapshotted") == ("False", "StaleGeneration")
    indexed = [worlds.a_snapshot(worlds.an_archive(1))]
    plan = plan_of(session=deleted, pods=[worlds.a_pod(1)], history=stored, snapshots=indexed)
    assert [type(write) for write in plan.writes] == [Delete]
    assert plan.finalizer_remove is None


@pytest.mark.parametrize(("ended", "is_waited_for"), [(-10, True), (20, True), (31, False)])
def test_a_deleted_session_waits_for_no_pod_of_another_epoch_that_is_stuck(ended: int, *, is_waited_for: bool) -> None:
    status = worlds.a_status("Suspended", 2)
    deleted = worlds.a_session(status=status, deletionTimestamp="2026-03-01T12:00:00Z", finalizers=[FINALIZER])
    stuck = worlds.a_pod(1, terminating_for=grace_seconds(worlds.a_sandbox()) + ended)
    plan = plan_of(session=deleted, pods=[stuck], history=worlds.a_history(worlds.an_archive(2)))
    assert (plan.finalizer_remove is None) is is_waited_for


FINALIZER = names.FINALIZER_WORKSPACE


def test_a_pod_that_only_pretends_to_be_ours_holds_nothing_and_is_not_touched() -> None:
    pretender = worlds.a_pod()
    pretender["metadata"]["annotations"][names.ANNOTATION_OWNER] = "SandboxSession/research/quill/another"
    deleted = worlds.a_session(
        status=worlds.a_status("Suspended"), deletionTimestamp="2026-03-01T12:00:00Z", finalizers=[FINALIZER]
    )
    plan = plan_of(session=deleted, pods=[pretender])
    assert plan == Plan(finalizer_remove=FINALIZER)


def test_what_is_deleted_without_our_finalizer_is_none_of_our_business() -> None:
    session = worlds.a_session(
        status=worlds.a_status("Ready"), deletionTimestamp="2026-03-01T12:00:00Z", finalizers=["someone.else/theirs"]
    )
    assert plan_session(worlds.a_world(session=session, pods=[worlds.a_pod()])) == Plan()


@pytest.mark.parametrize("phase", ["Starting", "Ready", "Stopping"])
def test_a_finalizer_that_somebody_took_off_is_put_back_while_there_may_be_work(phase: str) -> None:
    """A replace by a tool that knows nothing of finalizers drops them, and the next deletion would not be held."""
    spec = {"operatingMode": "Suspended"} if phase == "Stopping" else {}
    world = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Open"), "history": FENCED}
    session = worlds.a_session(spec, worlds.a_status(phase), finalizers=["someone.else/theirs"])
    assert plan_of(session=session, **world).finalizer_add == FINALIZER
    held = worlds.a_session(spec, worlds.a_status(phase), finalizers=["someone.else/theirs", FINALIZER])
    assert plan_of(session=held, **world).finalizer_add is None


def test_a_session_at_rest_needs_no_finalizer() -> None:
    session = worlds.a_session({"operatingMode": "Suspended"}, worlds.a_status("Suspended"), finalizers=[])
    assert plan_of(session=session).finalizer_add is None


# A new value of an annotation.


@pytest.mark.parametrize("mark", ["x", "ä"])
def test_a_retry_of_any_length_is_noted_in_a_form_that_fits_into_status(mark: str) -> None:
    long = mark * 5000
    world = {"pods": [worlds.a_pod()], "keepers": worlds.a_keeper("Open"), "history": FENCED}
    retried = {"annotations": {names.ANNOTATION_RETRY: long}}
    plan = plan_of(session=ready(spec={"operatingMode": "Suspended"}, **retried), **world)
    assert plan.status is not None
    noted = plan.status["observedRetry"]
    assert len(noted) <= 1024
    resting = worlds.a_status("Failed", observedRetry=noted)
    assert plan_of(session=worlds.a_session(status=resting, **retried)).status is None
    again = {"annotations": {names.ANNOTATION_RETRY: f"{long}!"}}
    started = plan_of(session=worlds.a_session(status=resting, **again))
    assert started.status is not None
    assert started.status["phase"] == "Starting"
    assert started.status["observedRetry"] not in (noted, f"{long}!")


# A status that names somebody else's slot.


@pytest.mark.parametrize("phase", ["Starting", "Ready", "Stopping", "Suspended", "Failed"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_no_status_gives_a_session_the_slot_of_another(phase: str, *, is_deleted: bool) -> None:
    """Whoever may write statuses (a role with `*`, a backup put back under another name) gets nobody's workspace."""
    foreign = {"key": "f" * 32, "epoch": 1}
    going: dict[str, Any] = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": [FINALIZER]}
    session = worlds.a_session(status=worlds.a_status(phase, slot=foreign), **(going if is_deleted else {}))
    for keeper in (worlds.a_keeper("Empty"), worlds.a_keeper("Ready"), worlds.a_keeper("Open")):
        stored = worlds.a_history(worlds.an_archive())
        plan = plan_of(session=session, pods=[worlds.a_pod()], keepers=keeper, history=stored)
        assert "f" * 32 not in to_yaml(replace(plan, status=None)), "an order, a grant or an entry for another slot"
        if not is_deleted:
            assert (plan.calls, plan.writes, plan.status) == ((), (), None)
            assert "status.slot.key" in plan.events[0].message


# An object that cannot be read.


def test_an_unreadable_session_is_refused_while_nothing_of_it_runs() -> None:
    invalid = refuse(RefusalCode.SPEC_REFUSED, "SandboxSession quill: spec.env: too long")
    plan = plan_of(invalid=invalid)
    assert plan.status is not None
    assert plan.status["refusal"]["code"] == "spec_refused"
    said = Event("Warning", invalid.reason, f"{invalid.message}. {invalid.action}")
    left_alone = Plan(events=(said,), wake_after=60)
    running = plan_of(invalid=invalid, session=ready(), pods=[worlds.a_pod()])
    assert running == left_alone
    hidden = plan_of(invalid=invalid, pods=[worlds.a_pod()])
    assert hidden == left_alone
