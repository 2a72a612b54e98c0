"""`sandhold session` against the real API server; the test itself plays the operator."""

import json
import os
import pty
import signal
import subprocess

import pytest

from sandhold import names
from testkit import statuses
from testkit.cli_place import PROGRAM, Output, Place, eventually


def test_lists_as_plain_columns_when_piped(place: Place) -> None:
    place.session("quill", statuses.ready())
    place.session("brush")
    done = place.run("session", "ls")
    assert done.returncode == 0
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["NAME", "SANDBOX", "PHASE", "READY", "REASON", "RECOVERY", "AGE"]
    assert [row[:6] for row in rows] == [
        ["brush", "coder", "-", "False", "-", "-"],
        ["quill", "coder", "Ready", "True", "Running", "Restored"],
    ]
    assert "\x1b" not in done.stdout
    wide = place.run("session", "ls", "-o", "wide").stdout
    assert "quill-0123456789-3" in wide
    assert "node-a" in wide
    assert " 2-1 " in wide


def test_the_options_may_stand_before_the_command(place: Place) -> None:
    place.session()
    process = place.start("-n", place.namespace, "session", "ls", "--output", "name")
    output, _ = process.communicate(timeout=30)
    assert output == "sandboxsession.sandhold.dev/quill\n"


def test_no_sessions_are_said_beside_the_output(place: Place) -> None:
    done = place.run("session", "ls")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"no sessions in namespace {place.namespace}\n"
    assert place.json("session", "ls") == {"items": []}


def test_all_namespaces(place: Place) -> None:
    place.session("anywhere")
    rows = place.run("session", "ls", "-A").stdout.splitlines()
    assert rows[0].split()[0] == "NAMESPACE"
    assert any(row.split()[:2] == [place.namespace, "anywhere"] for row in rows)


def test_json_has_every_documented_field(place: Place) -> None:
    uid = place.session(status=statuses.ready())
    found = place.json("session", "get", "quill")
    assert found["uid"] == uid
    assert found["ready"] is True
    assert found["pod"] == {"name": "quill-0123456789-3", "ip": "192.0.2.7", "node": "node-a"}
    assert found["snapshot"]["name"] == "quill-0000000000-2"
    assert found["refusal"] is None
    assert [one["type"] for one in found["conditions"]] == ["Ready", "Reconciling", "Stalled", "Snapshotted"]
    assert place.json("session", "ls")["items"] == [found]
    yaml = place.run("session", "get", "quill", "-o", "yaml").stdout
    assert "operatingMode: Running\n" in yaml
    text = place.run("session", "get", "quill").stdout
    assert "2-1 quill-0000000000-2" in text
    assert "Snapshotted:" in text


def test_a_refusal_is_shown_with_what_to_do(place: Place) -> None:
    place.session(status=statuses.refused(1))
    text = place.run("session", "get", "quill").stdout
    assert "sandbox_unavailable: spec.sandboxRef.name is coder" in text
    assert "Create the AgentSandbox." in text
    refusal = place.json("session", "get", "quill")["refusal"]
    assert refusal["meaning"].startswith("The AgentSandbox that the session names does not exist")


def test_what_is_not_there_is_said_in_two_lines(place: Place) -> None:
    for words in (("session", "get"), ("session", "suspend"), ("session", "resume"), ("session", "rm"), ("logs",)):
        done = place.run(*words, "nobody")
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.splitlines() == [
            f"sandhold: SandboxSession {place.namespace}/nobody: not found",
            f"  next: see what is there: sandhold session ls -n {place.namespace}",
        ]


def test_suspend_changes_the_mode_and_nothing_else(place: Place) -> None:
    place.session(status=statuses.ready(), ttlSeconds=3600)
    done = place.run("session", "suspend", "quill")
    assert (done.returncode, done.stdout) == (0, "session quill is told to stop\n")
    found = place.found()
    assert found["spec"] == {"sandboxRef": {"name": "coder"}, "operatingMode": "Suspended", "ttlSeconds": 3600}
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    assert "sandhold-cli" in managers
    assert names.FIELD_MANAGER not in managers


def test_suspend_waits_for_this_stop_and_says_what_for(place: Place) -> None:
    place.session(status=statuses.ready())
    process = place.start("-n", place.namespace, "session", "suspend", "quill", "--wait")
    said = Output(process)
    eventually(lambda: place.found()["spec"].get("operatingMode") == "Suspended", "it is told")
    generation = place.found()["metadata"]["generation"]
    place.says("quill", statuses.stopping(generation))
    eventually(lambda: said.has("Stopping: The workspace of this stop is not archived yet."), "progress is told")
    place.says("quill", statuses.stopping(generation, "The bucket does not answer."))
    eventually(lambda: said.has("The bucket does not answer."), "what it waits for now is told")
    assert process.poll() is None
    place.says("quill", statuses.at_rest(generation))
    assert said.end() == "session quill suspended; its workspace is archive 3-2\n"
    assert process.returncode == 0


def test_an_older_rest_is_not_taken_for_this_stop(place: Place) -> None:
    place.session(status=statuses.at_rest(1, "TtlExpired"))
    done = place.run("session", "suspend", "quill", "--wait", "--timeout", "2s")
    assert done.returncode == 3
    assert "not done within 2 s; what was asked for goes on by itself" in done.stderr
    assert "--timeout" in done.stderr


def test_a_stop_that_lost_the_workspace_is_a_failure(place: Place) -> None:
    place.session(status=statuses.ready())
    process = place.start("-n", place.namespace, "session", "suspend", "quill", "--wait")
    said = Output(process)
    eventually(lambda: place.found()["spec"].get("operatingMode") == "Suspended", "it is told")
    lost = statuses.at_rest(2)
    lost["conditions"][-1] = statuses.condition("Snapshotted", "False", "PodLost", "The pod was gone before.")
    place.says("quill", lost)
    assert said.end() == ""
    assert process.returncode == 1
    assert said.has("it stopped, and The pod was gone before.")


def test_a_session_that_somebody_deletes_meanwhile(place: Place) -> None:
    place.session(status=statuses.ready())
    process = place.start("-n", place.namespace, "session", "suspend", "quill", "--wait")
    said = Output(process)
    eventually(lambda: place.found()["spec"].get("operatingMode") == "Suspended", "it is told")
    place.delete()
    said.end()
    assert process.returncode == 4
    assert said.has("somebody deleted it meanwhile")


def test_resume_toggles_the_mode_of_one_that_was_told_to_stop(place: Place) -> None:
    place.session(status=statuses.at_rest(1), operatingMode="Suspended")
    assert place.run("session", "resume", "quill").stdout == "session quill is told to run\n"
    found = place.found()
    assert found["spec"]["operatingMode"] == "Running"
    assert names.ANNOTATION_RETRY not in found["metadata"].get("annotations", {})


@pytest.mark.parametrize("reason", ["TtlExpired", "AgentExited", "StartTimeout", "Refused"])
def test_resume_retries_one_that_stopped_by_itself(place: Place, reason: str) -> None:
    place.session(status=statuses.at_rest(1, reason))
    place.run("session", "resume", "quill")
    first = place.found()["metadata"]["annotations"][names.ANNOTATION_RETRY]
    place.run("session", "resume", "quill")
    assert place.found()["metadata"]["annotations"][names.ANNOTATION_RETRY] != first


def test_resume_of_one_that_stopped_by_itself_and_was_suspended_then_does_both(place: Place) -> None:
    place.session(status=statuses.at_rest(1, "TtlExpired"), operatingMode="Suspended")
    place.run("session", "resume", "quill")
    found = place.found()
    assert found["spec"]["operatingMode"] == "Running"
    assert names.ANNOTATION_RETRY in found["metadata"]["annotations"]


def test_resume_leaves_one_that_runs_alone(place: Place) -> None:
    place.session(status=statuses.ready())
    before = place.found()["metadata"]["resourceVersion"]
    assert place.run("session", "resume", "quill", "--wait").stdout == "session quill is ready\n"
    assert place.found()["metadata"]["resourceVersion"] == before


def test_resume_waits_until_the_retry_was_heard(place: Place) -> None:
    place.session(status=statuses.at_rest(1, "TtlExpired"))
    process = place.start("-n", place.namespace, "session", "resume", "quill", "--wait", "-o", "json")
    said = Output(process)
    eventually(lambda: names.ANNOTATION_RETRY in place.found()["metadata"].get("annotations", {}), "it is told")
    retry = place.found()["metadata"]["annotations"][names.ANNOTATION_RETRY]
    place.says("quill", statuses.starting(observedRetry=retry))
    eventually(lambda: said.has("Starting"), "progress is told")
    assert process.poll() is None
    place.says("quill", statuses.ready(observedRetry=retry))
    assert json.loads(said.end())["ready"] is True
    assert process.returncode == 0


@pytest.mark.parametrize("by_retry", [False, True])
def test_a_resume_that_is_refused_ends_at_once_with_the_reason(place: Place, *, by_retry: bool) -> None:
    if by_retry:
        place.session(status=statuses.at_rest(1, "TtlExpired"))
    else:
        place.session(status=statuses.at_rest(1), operatingMode="Suspended")
    before = place.found()["metadata"]["resourceVersion"]
    process = place.start("-n", place.namespace, "session", "resume", "quill", "--wait")
    said = Output(process)
    eventually(lambda: place.found()["metadata"]["resourceVersion"] != before, "it is told")
    place.says("quill", statuses.refused(place.found()["metadata"]["generation"]))
    assert said.end() == ""
    assert process.returncode == 1
    assert said.has("not started: spec.sandboxRef.name is coder, and there is no such AgentSandbox")
    assert said.has("next: Create the AgentSandbox.")


def test_rm_says_what_becomes_of_a_workspace_that_runs(place: Place) -> None:
    place.sandbox(snapshot={"store": "main"})
    place.session(status=statuses.ready())
    done = place.run("session", "rm", "quill")
    assert (done.returncode, done.stdout) == (0, "session quill is being deleted\n")
    assert "archived first" in done.stderr
    assert "a new session of this name for AgentSandbox coder starts from there" in done.stderr


def test_rm_says_that_a_sandbox_keeps_nothing(place: Place) -> None:
    place.sandbox(snapshot={"onStop": False})
    place.session(status=statuses.ready())
    assert "what is in it is lost" in place.json("session", "rm", "quill")["workspace"]


def test_rm_of_one_at_rest_names_its_archive(place: Place) -> None:
    place.sandbox()
    place.session(status=statuses.at_rest(1), operatingMode="Suspended")
    assert place.json("session", "rm", "quill")["workspace"] == "it is stopped; archive 3-2 stays in the store"


def test_rm_waits_until_the_object_is_gone(place: Place) -> None:
    place.session(status=statuses.ready())
    place.change({"metadata": {"finalizers": [names.FINALIZER_WORKSPACE]}})
    process = place.start("-n", place.namespace, "session", "rm", "quill", "--wait")
    said = Output(process)
    eventually(lambda: "deletionTimestamp" in place.found()["metadata"], "it is deleted")
    place.says("quill", statuses.stopping(1))
    eventually(lambda: said.has("Stopping"), "progress is told")
    assert process.poll() is None
    place.change({"metadata": {"finalizers": None}})
    assert said.end() == "session quill is gone\n"
    assert process.returncode == 0


def test_nothing_is_discarded_without_a_confirmation(place: Place) -> None:
    place.session(status=statuses.ready())
    done = place.run("session", "rm", "quill", "--discard")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "annotations" not in place.found()["metadata"]
    assert "deletionTimestamp" not in place.found()["metadata"]


def test_discard_sets_the_annotation_before_it_deletes(place: Place) -> None:
    place.session(status=statuses.ready())
    place.change({"metadata": {"finalizers": [names.FINALIZER_WORKSPACE]}})
    done = place.run("session", "rm", "quill", "--discard", "--yes")
    assert done.returncode == 0
    assert "given up" in done.stderr
    found = place.found()["metadata"]
    assert found["annotations"] == {names.ANNOTATION_DISCARD: "true"}
    assert "deletionTimestamp" in found
    place.change({"metadata": {"finalizers": None}})


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_person_is_asked(place: Place, answer: bytes, code: int) -> None:
    place.session(status=statuses.ready())
    ours, theirs = pty.openpty()
    words = [*PROGRAM, "-n", place.namespace, "session", "rm", "quill", "--discard"]
    os.write(ours, answer)
    done = subprocess.run(
        words, env=place.environment(), stdin=theirs, capture_output=True, text=True, timeout=30, check=False
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert f"Give up the workspace of {place.namespace}/quill without an archive?" in done.stderr


def test_one_that_is_being_deleted_is_neither_suspended_nor_resumed(place: Place) -> None:
    place.session(status=statuses.ready())
    place.change({"metadata": {"finalizers": [names.FINALIZER_WORKSPACE]}})
    place.delete()
    for verb in ("suspend", "resume"):
        done = place.run("session", verb, "quill")
        assert done.returncode == 6
        assert "it is being deleted" in done.stderr
    place.change({"metadata": {"finalizers": None}})


def test_an_interrupt_ends_a_wait_cleanly(place: Place) -> None:
    place.session(status=statuses.ready())
    process = place.start("-n", place.namespace, "session", "suspend", "quill", "--wait")
    said = Output(process)
    eventually(lambda: said.has("Ready"), "it waits")
    process.send_signal(signal.SIGINT)
    said.end()
    assert process.returncode == 130
    assert said.has("interrupted")
    assert not said.has("Traceback")


def test_a_wait_outlives_a_restart_of_the_api_server(place: Place) -> None:
    place.session(status=statuses.ready())
    process = place.start("-n", place.namespace, "session", "suspend", "quill", "--wait")
    said = Output(process)
    eventually(lambda: said.has("Ready"), "it waits")
    place.server.restart()
    place.says("quill", statuses.at_rest(2))
    assert said.end().startswith("session quill suspended")
    assert process.returncode == 0


def test_a_reader_that_stops_reading_is_no_failure(place: Place) -> None:
    for number in range(3):
        place.session(f"s-{number}")
    words = " ".join(f"'{word}'" for word in [*PROGRAM, "-n", place.namespace, "session", "ls", "-o", "json"])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | true"],
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in (0, 141)
    assert done.stderr == ""
