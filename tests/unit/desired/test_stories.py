"""Whole stories of a session against a simulated cluster: every pass of them is held against the laws."""

from itertools import pairwise

import pytest

from sandhold import names
from sandhold.desired.plan import Plan
from sandhold.desired.session import plan_session
from testkit import worlds
from testkit.simulation import Simulation


@pytest.fixture
def running() -> Simulation:
    simulation = Simulation()
    simulation.run()
    assert simulation.phase == "Ready"
    return simulation


def is_settled(simulation: Simulation) -> bool:
    plan = plan_session(simulation.world())
    return plan == Plan(wake_after=plan.wake_after)


def test_a_cold_start_takes_four_writes_and_then_none() -> None:
    simulation = Simulation()
    simulation.run()
    assert simulation.phase == "Ready"
    assert simulation.writes == ["finalizer", "status", "pod", "status"]
    assert simulation.events == []
    assert is_settled(simulation)


def test_a_stop_deletes_the_pod_only_after_its_archive_and_its_entry(running: Simulation) -> None:
    running.writes.clear()
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    assert running.phase == "Suspended"
    assert running.writes == ["status", "snapshot", "snapshot status", "delete", "status"]
    assert running.reasons() == ["Stopping", "Archived", "Suspended"]
    assert running.condition("Snapshotted") == ("True", "Stored")
    assert running.deleted_work == [running.store[1, 1][1]]
    assert is_settled(running)


def test_a_resumed_session_goes_on_with_its_work(running: Simulation) -> None:
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    stored = running.store[1, 1][1]
    running.change(spec={"operatingMode": "Running"})
    running.run()
    assert running.phase == "Ready"
    assert [keeper.workspace > stored > 0 for keeper in running.keepers.values()] == [True]
    assert running.session is not None
    assert running.session.status.recovery == "Restored"
    assert running.session.status.slot is not None
    assert running.session.status.slot.epoch == 2


def test_a_deleted_session_is_archived_before_it_goes(running: Simulation) -> None:
    running.delete()
    running.run()
    assert running.session is None
    assert running.pods == {}
    assert (1, 1) in running.store
    assert len(running.snapshots) == 1


def test_the_time_limit_suspends_and_a_toggle_starts_again() -> None:
    simulation = Simulation(session=worlds.a_session({"ttlSeconds": 60}))
    simulation.until("Ready")
    simulation.run()
    assert simulation.phase == "Suspended"
    assert simulation.condition("Ready") == ("False", "TtlExpired")
    assert (1, 1) in simulation.store
    simulation.change(spec={"operatingMode": "Suspended"})
    simulation.run()
    simulation.change(spec={"operatingMode": "Running", "ttlSeconds": 36000})
    simulation.run()
    assert simulation.phase == "Ready"


def test_a_retry_starts_a_session_that_its_time_limit_stopped() -> None:
    simulation = Simulation(session=worlds.a_session({"ttlSeconds": 60}))
    simulation.until("Ready")
    simulation.until("Suspended")
    simulation.change(spec={"ttlSeconds": 36000}, annotations={names.ANNOTATION_RETRY: "once more"})
    simulation.run()
    assert simulation.phase == "Ready"
    assert simulation.session is not None
    assert simulation.session.status.observed_retry == "once more"


def test_an_agent_that_does_not_listen_is_given_its_grace_and_no_more(running: Simulation) -> None:
    running.faults.deaf_agent = True
    began = running.now
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    assert running.phase == "Suspended"
    assert (1, 1) in running.store
    assert 10 <= (running.now - began).total_seconds() < 30


def test_a_store_that_is_down_at_a_stop_keeps_pod_and_finalizer_and_heals(running: Simulation) -> None:
    (uid,) = running.pods
    running.faults.store = True
    running.delete()
    for _ in range(40):
        running.step()
    assert list(running.pods) == [uid]
    assert running.phase == "Stopping"
    assert running.condition("Snapshotted") == ("False", "SnapshotStoreUnavailable")
    assert running.session is not None
    assert names.FINALIZER_WORKSPACE in running.session.metadata.finalizers
    running.faults.store = False
    running.run()
    assert running.session is None
    assert (1, 1) in running.store


def test_an_archive_that_fails_is_tried_again_ever_more_rarely(running: Simulation) -> None:
    running.change(spec={"operatingMode": "Suspended"})
    running.step()
    history = running._history()
    running.faults.store = True
    running._history = lambda: history  # type: ignore[method-assign]
    attempts = []
    for _ in range(60):
        before = running.now
        running.step()
        attempts += [before for call in running.plans[-1].calls if getattr(call, "verb", "") == "archive"]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(attempts)]
    assert len(gaps) > 5
    assert gaps[0] <= 3
    assert max(gaps) <= 31
    assert gaps[-1] > gaps[1]
    assert running.reasons().count("ArchiveFailed") == 1


def test_a_stop_over_its_time_limit_is_stalled_and_loses_nothing(running: Simulation) -> None:
    running.faults.store = True
    running.change(spec={"operatingMode": "Suspended"})
    for _ in range(8):
        running.step()
    running.pass_time(700)
    running.step()
    assert running.condition("Stalled") == ("True", "StopTimeout")
    assert len(running.pods) == 1
    running.faults.store = False
    running.run()
    assert running.phase == "Suspended"
    assert running.condition("Stalled")[0] == "False"


def test_a_store_that_is_down_at_a_start_makes_it_wait_without_a_pod() -> None:
    simulation = Simulation()
    simulation.faults.store = True
    for _ in range(10):
        simulation.step()
    assert simulation.pods == {}
    assert simulation.phase == "Starting"
    assert simulation.condition("Ready") == ("False", "SnapshotStoreUnavailable")
    assert simulation.writes == ["status"]
    simulation.faults.store = False
    simulation.run()
    assert simulation.phase == "Ready"


def test_a_restore_that_fails_for_the_store_is_tried_again_in_the_same_pod(running: Simulation) -> None:
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    running.change(spec={"operatingMode": "Running"})
    running.step()
    running.step()
    (uid,) = running.pods
    history = running._history()
    running.faults.store = True
    known = running._history
    running._history = lambda: history  # type: ignore[method-assign]
    for _ in range(12):
        running.step()
    assert running.condition("WorkspaceReady") == ("False", "SnapshotStoreUnavailable")
    running.faults.store = False
    running._history = known  # type: ignore[method-assign]
    running.run()
    assert running.phase == "Ready"
    assert list(running.pods) == [uid]


def test_nothing_runs_while_the_movers_are_away_and_it_does_when_they_are_back() -> None:
    simulation = Simulation()
    for _ in range(2):
        simulation.step()
    simulation.faults.mover = True
    for _ in range(6):
        simulation.step()
    assert simulation.work == 0
    assert simulation.phase == "Starting"
    assert simulation.condition("PodReady") == ("False", "KeeperSilent")
    simulation.faults.mover = False
    simulation.run()
    assert simulation.phase == "Ready"
    assert len(simulation.deleted_work) == 0


def test_walls_that_do_not_hold_are_refused_before_the_agent_runs() -> None:
    simulation = Simulation()
    simulation.faults.walls = True
    simulation.run()
    assert simulation.phase == "Failed"
    assert simulation.work == 0
    assert simulation.pods == {}
    assert simulation.condition("EgressVerified") == ("False", "EgressCniNotEnforced")
    assert simulation.session is not None
    assert simulation.session.status.refusal is not None
    assert simulation.session.status.refusal.code == "egress_cni_not_enforced"
    assert is_settled(simulation)
    simulation.faults.walls = False
    simulation.change(annotations={names.ANNOTATION_RETRY: "walls are up"})
    simulation.run()
    assert simulation.phase == "Ready"
    assert simulation.session.status.refusal is None


def test_a_mover_that_is_replaced_while_a_pod_starts_costs_time_and_no_start() -> None:
    simulation = Simulation()
    simulation.faults.canary_mover = True
    for _ in range(12):
        simulation.step()
    assert simulation.phase == "Starting"
    assert simulation.condition("EgressVerified") == ("False", "MoverUnreached")
    assert not any(keeper.opened_ever for keeper in simulation.keepers.values())
    written, pods = len(simulation.writes), set(simulation.pods)
    for _ in range(6):
        simulation.step()
    assert len(simulation.writes) == written, "it is told once"
    simulation.faults.canary_mover = False
    simulation.run()
    assert simulation.phase == "Ready"
    assert set(simulation.pods) == pods


def test_a_mover_that_is_never_reached_ends_the_start_in_time() -> None:
    simulation = Simulation()
    simulation.faults.canary_mover = True
    simulation.run(400)
    assert simulation.phase == "Failed"
    assert simulation.work == 0
    assert simulation.session is not None
    assert simulation.session.status.refusal is not None
    assert simulation.session.status.refusal.code == "start_timeout"
    assert "did not answer" in simulation.session.status.refusal.message


def test_an_image_that_cannot_be_pulled_is_said_and_given_up_in_time() -> None:
    simulation = Simulation()
    simulation.faults.image = True
    for _ in range(6):
        simulation.step()
    assert simulation.condition("PodReady") == ("False", "ImagePullFailed")
    simulation.run()
    assert simulation.phase == "Failed"
    assert simulation.session is not None
    assert simulation.session.status.refusal is not None
    assert simulation.session.status.refusal.code == "start_timeout"
    assert "cannot be pulled" in simulation.session.status.refusal.message
    assert simulation.pods == {}


@pytest.mark.parametrize(("code", "phase"), [(0, "Finished"), (3, "Failed")])
def test_an_agent_that_ends_is_archived_whatever_its_exit_code(code: int, phase: str) -> None:
    simulation = Simulation()
    simulation.exit_code = code
    simulation.run()
    assert simulation.phase == phase
    assert (1, 1) in simulation.store
    assert simulation.pods == {}
    assert is_settled(simulation)


def test_a_lost_pod_is_replaced_under_a_new_epoch_from_the_last_archive(running: Simulation) -> None:
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    running.change(spec={"operatingMode": "Running"})
    running.run()
    running.lose_pod()
    running.run()
    assert running.phase == "Ready"
    assert running.session is not None
    assert running.session.status.restarts == 1
    assert running.session.status.recovery == "Repaired"
    assert "PodLost" in running.reasons()
    assert [names.pod_name("quill", worlds.SESSION_UID, 3)] == [
        pod["metadata"]["name"] for pod in running.pods.values()
    ]


def test_an_evicted_pod_is_replaced_and_its_object_removed(running: Simulation) -> None:
    running.evict()
    running.run()
    assert running.phase == "Ready"
    assert len(running.pods) == 1


def test_too_many_losses_in_a_row_are_a_failure(running: Simulation) -> None:
    for _ in range(6):
        running.lose_pod()
        running.run()
    assert running.phase == "Failed"
    assert running.pods == {}
    running.change(annotations={names.ANNOTATION_RETRY: "again"})
    running.run()
    assert running.phase == "Ready"


def test_losses_far_apart_are_no_row(running: Simulation) -> None:
    for _ in range(8):
        running.pass_time(601)
        running.lose_pod()
        running.run()
    assert running.phase == "Ready"


def test_a_pod_that_somebody_deletes_is_archived_in_its_grace_and_replaced(running: Simulation) -> None:
    running.delete_pod()
    running.run()
    assert running.phase == "Ready"
    assert (1, 1) in running.store
    assert running.deleted_work == [running.store[1, 1][1]]


def test_a_session_deleted_before_it_was_ready_goes_with_its_pod() -> None:
    simulation = Simulation()
    simulation.faults.image = True
    for _ in range(4):
        simulation.step()
    assert len(simulation.pods) == 1
    simulation.delete()
    simulation.run()
    assert simulation.session is None
    assert simulation.pods == {}
    assert simulation.store == {}
    assert "WorkspaceLost" not in simulation.reasons()


@pytest.mark.parametrize("passes", range(1, 7))
def test_a_session_deleted_at_any_moment_of_its_start_goes(passes: int) -> None:
    simulation = Simulation()
    for _ in range(passes):
        simulation.step()
    simulation.delete()
    simulation.run()
    assert simulation.session is None
    assert simulation.pods == {}
    assert "WorkspaceLost" not in simulation.reasons()


def test_a_person_may_let_the_workspace_go(running: Simulation) -> None:
    running.faults.store = True
    running.change(annotations={names.ANNOTATION_DISCARD: "true"})
    running.delete()
    running.run()
    assert running.session is None
    assert running.reasons() == ["WorkspaceDiscarded"]


def test_without_archives_a_stop_ends_the_pod_and_says_so() -> None:
    simulation = Simulation(worlds.a_sandbox({"snapshot": {"onStop": False}}))
    simulation.run()
    assert simulation.phase == "Ready"
    simulation.change(spec={"operatingMode": "Suspended"})
    simulation.run()
    assert simulation.phase == "Suspended"
    assert simulation.condition("Snapshotted") == ("Unknown", "NotRequested")
    assert simulation.store == {}


def test_an_agent_whose_container_starts_again_needs_new_evidence(running: Simulation) -> None:
    (keeper,) = running.keepers.values()
    running.restart_init()
    assert keeper.report.challenge != keeper.report.opened
    running.run()
    assert running.phase == "Ready"
    assert keeper.report.challenge == keeper.report.opened == f"{2:032x}"
    assert running.session is not None
    assert running.session.status.restarts is None


def test_a_keeper_that_starts_again_before_the_gate_opened_is_asked_for_evidence_again() -> None:
    simulation = Simulation()
    for _ in range(3):
        simulation.step()
    simulation.restart_keeper()
    simulation.run()
    assert simulation.phase == "Ready"


def test_a_keeper_and_an_init_that_start_again_get_a_new_word(running: Simulation) -> None:
    running.restart_keeper()
    running.restart_init()
    running.run()
    (keeper,) = running.keepers.values()
    assert running.phase == "Ready"
    assert keeper.report.opened == keeper.report.challenge == f"{2:032x}"


def test_a_pod_that_is_gone_before_its_archive_is_told(running: Simulation) -> None:
    running.faults.store = True
    running.change(spec={"operatingMode": "Suspended"})
    for _ in range(3):
        running.step()
    running.lose_pod()
    running.faults.store = False
    running.run()
    assert running.phase == "Suspended"
    assert running.condition("Snapshotted") == ("False", "PodLost")
    assert "WorkspaceLost" in running.reasons()


def test_a_suspended_session_can_be_deleted_without_more_ado(running: Simulation) -> None:
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    running.writes.clear()
    running.delete()
    running.run()
    assert running.session is None
    assert running.writes == ["finalizer off"]


def test_a_session_that_shall_not_run_is_never_started() -> None:
    simulation = Simulation(session=worlds.a_session({"operatingMode": "Suspended"}))
    simulation.run()
    assert simulation.phase == "Suspended"
    assert simulation.writes == ["status"]
    assert simulation.pods == {}


def test_a_stored_checkpoint_costs_two_writes_and_an_unchanged_one_none(running: Simulation) -> None:
    running.checkpoint()
    running.writes.clear()
    running.run()
    assert running.writes == ["snapshot", "snapshot status", "status"], "the first one of an epoch makes its entry"
    for number in (2, 3):
        running.writes.clear()
        running.work += 1
        for keeper in running.keepers.values():
            keeper.workspace += 1
        running.checkpoint()
        running.run()
        assert running.writes == ["snapshot status", "status"]
        assert running.session is not None
        assert running.session.status.snapshot is not None
        assert running.session.status.snapshot.sequence == number
    assert len(running.snapshots) == 1
    running.writes.clear()
    running.run()
    assert running.writes == []
    assert running.reasons() == []
    assert is_settled(running)


def test_a_lost_pod_goes_on_from_its_last_checkpoint(running: Simulation) -> None:
    running.checkpoint()
    running.run()
    stored = running.store[1, 1][1]
    running.pass_time(100)
    running.lose_pod()
    running.run()
    assert running.phase == "Ready"
    assert running.session is not None
    assert running.session.status.recovery == "Repaired"
    assert "its last checkpoint is 1-1" in running.events[-1].message
    (keeper,) = running.keepers.values()
    assert keeper.report.marker_source == (1, 1)
    assert keeper.workspace >= stored


def test_a_stop_after_checkpoints_ends_with_a_final_archive_in_the_same_entry(running: Simulation) -> None:
    running.checkpoint()
    running.run()
    running.pass_time(100)
    running.writes.clear()
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    assert running.writes == ["status", "snapshot status", "delete", "status"]
    (entry,) = running.snapshots.values()
    assert (entry["status"]["sequence"], entry["status"]["final"]) == (2, True)
    assert running.deleted_work == [running.store[1, 2][1]]
    assert is_settled(running)


def test_grants_are_renewed_for_as_long_as_the_session_runs_and_cost_no_write(running: Simulation) -> None:
    running.writes.clear()
    given = set()
    for _ in range(6):
        running.pass_time(6 * 3600)
        running.run()
        (keeper,) = running.keepers.values()
        assert keeper.report.kept is not None
        left = min(keeper.report.kept.checkpoint, keeper.report.kept.final) - running.now.timestamp()
        assert left >= 12 * 3600 - 1
        given.add(keeper.report.kept.final)
    assert len(given) > 1
    assert running.writes == []


def test_a_pod_that_somebody_deletes_archives_itself_once(running: Simulation) -> None:
    running.plans.clear()
    running.delete_pod()
    running.run()
    assert running.phase == "Ready"
    ordered = [call for plan in running.plans for call in plan.calls if getattr(call, "verb", "") == "archive"]
    assert ordered == []
    assert running.store[1, 1][0].final
    assert "its workspace is stored whole in archive 1-1" in running.events[-1].message


def test_a_full_workspace_stops_the_session_and_a_retry_starts_it(running: Simulation) -> None:
    running.fill("Full")
    running.run()
    assert running.condition("WorkspaceReady") == ("True", "WorkspaceFull")
    running.fill("Critical")
    running.run()
    assert running.phase == "Suspended"
    assert running.condition("Ready") == ("False", "WorkspaceFull")
    assert running.reasons() == ["WorkspaceFull", "WorkspaceFull", "Archived", "WorkspaceFull"]
    assert is_settled(running)
    running.change(annotations={names.ANNOTATION_RETRY: "there is room"})
    running.run()
    assert running.phase == "Ready"


def test_a_session_on_a_cordoned_node_goes_on_when_it_may(running: Simulation) -> None:
    running.cordon()
    running.run()
    assert running.phase == "Suspended"
    assert running.condition("Ready") == ("False", "NodeCordoned")
    assert running.pods == {}
    assert is_settled(running)
    running.writes.clear()
    running.pass_time(7200)
    running.run()
    assert running.writes == [], "it waits at rest, and never runs into its start timeout"
    running.cordon(is_cordoned=False)
    running.run()
    assert running.phase == "Ready"
    assert running.session is not None
    assert running.session.status.restarts is None
    assert running.session.status.recovery == "Repaired"


def test_a_lost_node_costs_no_more_than_what_came_after_the_checkpoint(running: Simulation) -> None:
    running.checkpoint()
    running.run()
    running.nodes["node-2"] = running.nodes["node-1"]
    running.lose_node()
    running.pass_time(300)
    running.delete_pod()
    began = running.now
    running.step()
    assert running.phase == "Ready", "its keeper may only have lost its mover"
    running.pass_time(15)
    running.step()
    assert running.phase == "Starting"
    running.until("Ready")
    assert (running.now - began).total_seconds() < 45, "nobody waits for the grace of a pod whose node is gone"
    assert running.session is not None
    assert running.session.status.node_name == "node-2"
    assert len(running.pods) == 2, "the old one is stuck, and fenced off"


def test_turning_archives_off_in_mid_run_loses_nothing(running: Simulation) -> None:
    running.set_archives(on_stop=False)
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    assert running.phase == "Suspended"
    assert running.deleted_work == [running.store[1, 1][1]]
    assert running.condition("Snapshotted") == ("True", "Stored")
    running.change(spec={"operatingMode": "Running"})
    running.run()
    (keeper,) = running.keepers.values()
    assert keeper.report.marker_source == (1, 1), "a start that nobody will archive still begins with the last one"
    running.change(spec={"operatingMode": "Suspended"})
    running.run()
    assert running.condition("Snapshotted") == ("Unknown", "NotRequested")


def test_pods_that_are_taken_before_they_open_are_a_failure_in_the_end() -> None:
    simulation = Simulation()
    for _ in range(60):
        simulation.step()
        for uid, keeper in list(simulation.keepers.items()):
            if not keeper.opened_ever:
                simulation._forget(uid)
    assert simulation.phase == "Failed"
    assert simulation.writes.count("pod") == 6
    assert is_settled(simulation)


def test_a_discarded_workspace_does_not_wait_for_the_grace_of_somebody_elses_deletion(running: Simulation) -> None:
    running.faults.store = True
    running.delete_pod()
    running.step()
    running.change(annotations={names.ANNOTATION_DISCARD: "true"})
    running.delete()
    began = running.now
    running.run()
    assert running.session is None
    assert (running.now - began).total_seconds() < 30
    assert running.writes.count("delete") == 1
