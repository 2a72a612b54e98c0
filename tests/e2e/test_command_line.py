"""`sandhold` on the real cluster: lives of sessions, and the operator's word on what it would do."""

import json
import subprocess
from pathlib import Path
from typing import Any

from installation.client import until
from sandhold import names
from testbed import places
from testkit.cli_on_cluster import environment, told, typed
from testkit.cluster_client import START_SECONDS, SYSTEM, Field


def test_a_life_by_the_command_line(field: Field) -> None:
    """Suspend, resume and remove, each waited for; what runs and what is kept is told on the way."""
    field.sandbox("coder")
    session = field.session("quill", "coder")
    assert typed(field, "session", "resume", "quill", "--wait").returncode == 0
    session.shell("echo kept > work")
    done = typed(field, "session", "suspend", "quill", "--wait")
    assert done.returncode == 0, done.stderr
    archive = session.status()["snapshot"]
    said = f"session quill suspended; its workspace is archive {archive['epoch']}-{archive['sequence']}\n"
    assert done.stdout.decode() == said
    done = typed(field, "exec", "quill", "--", "true")
    assert done.returncode == 125
    assert b"session resume quill --wait" in done.stderr
    assert typed(field, "session", "resume", "quill", "--wait").stdout == b"session quill is ready\n"
    assert typed(field, "exec", "quill", "--", "cat", "work").stdout == b"kept\n"
    rows = told(field, "snapshot", "ls")["items"]
    assert [row["name"] for row in rows if row["final"] is not False][-1] == archive["name"]
    removed = told(field, "session", "rm", "quill", "--wait")
    assert removed["gone"] is True
    assert session.is_gone()


def test_the_operator_says_what_it_would_do(field: Field) -> None:
    """At rest nothing; a step that cannot be taken, as long as it cannot. No secret shows.

    What it says of a wait is asked for while the store is away: `test_store_faults.py`.
    """
    secret = "s3cr3t-" + field.namespace
    field.sandbox("coder", env=[{"name": "TOKEN", "value": secret}])
    field.session("quill", "coder").wait_phase("Ready")
    plan = until("it settles", lambda: _settled(field), seconds=90)
    assert plan["steps"] == []
    assert plan["observed"]["sandbox"] == "present"
    assert [keeper["gateOpen"] for keeper in plan["observed"]["keepers"].values()] == [True]
    explained = told(field, "explain", "quill")
    assert (explained["source"], explained["phase"], explained["waitsFor"]) == ("operator", "Ready", None)
    assert explained["conditions"] == []
    assert told(field, "plan", "sandbox/coder")["settled"]
    assert told(field, "explain", "sandbox/coder")["summary"] == "It takes sessions."

    metadata = {"namespace": field.namespace, "name": "full"}
    field.cluster.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "1"}}}
    )
    held = field.session("held", "coder")
    held.wait("told what holds it up", lambda status: bool(status.get("refusal")), START_SECONDS)
    plan = told(field, "plan", "session/held")
    pod = names.pod_name("held", held.found()["metadata"]["uid"], 1)
    assert plan["steps"] == [f"Create Pod {field.namespace}/{pod}."]
    assert not plan["settled"]
    assert plan["wakeAfterSeconds"] > 0
    explained = told(field, "explain", "held")
    assert explained["nextSteps"] == plan["steps"]
    assert "quota" in explained["refusal"]["message"]
    assert secret not in json.dumps(plan) + json.dumps(explained)


def _settled(field: Field) -> Any:
    found = told(field, "plan", "session/quill")
    return found if found["settled"] else None


def test_without_the_right_to_ask_status_alone_speaks(field: Field, tmp_path: Path) -> None:
    field.sandbox("coder")
    field.session("quill", "coder").wait_phase("Ready")
    kubeconfig = _reader(field, tmp_path)
    explained = told(field, "explain", "session/quill", kubeconfig=kubeconfig)
    assert explained["source"] == "status"
    assert "pods" in explained["note"]
    assert explained["nextSteps"] is None
    done = typed(field, "plan", "session/quill", kubeconfig=kubeconfig)
    assert done.returncode == 5
    assert b"not allowed (403)" in done.stderr
    done = typed(field, "explain", "session/quill", "--operator-namespace", "default")
    assert b"no pod of it runs in namespace default" in done.stdout


def _reader(field: Field, folder: Path) -> Path:
    """A kubeconfig of somebody who may read our objects here, and nothing else anywhere."""
    kubectl, namespace = field.cluster.kubectl, field.namespace
    kubectl("create", "serviceaccount", "reader", "-n", namespace)
    role = ("--verb=get,list", "--resource=sandboxsessions,agentsandboxes", "-n", namespace)
    kubectl("create", "role", "reader", *role)
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader", "-n", namespace)
    token = kubectl("create", "token", "reader", "-n", namespace).strip()
    path = folder / "reader.kubeconfig"
    path.write_text(places.kubeconfig().read_text())
    done = subprocess.run(
        [
            *(str(places.cache() / "bin" / "kubectl"), "config", f"--kubeconfig={path}"),
            *("set-credentials", "reader", f"--token={token}"),
        ],
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert done.returncode == 0
    context = field.cluster.kubectl("config", "current-context").strip()
    subprocess.run(
        [
            *(str(places.cache() / "bin" / "kubectl"), "config", f"--kubeconfig={path}"),
            *("set-context", context, "--user=reader"),
        ],
        capture_output=True,
        check=True,
        timeout=30,
    )
    return path


def test_a_sweep_looks_and_leaves_everything_alone(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    found = told(field, "sweep", "--all")
    mine = [one for one in found["objects"] if one["namespace"] == field.namespace]
    assert {one["kind"] for one in mine} >= {"Pod", "NetworkPolicy", "ServiceAccount"}
    assert [one["name"] for one in mine if one["orphan"]] == []
    assert found["dryRun"] is True
    assert session.status()["phase"] == "Ready"


def test_it_is_a_plugin_of_kubectl(field: Field) -> None:
    field.sandbox("coder")
    field.session("quill", "coder")
    done = subprocess.run(
        ["kubectl", "sandhold", "session", "ls", "-n", field.namespace, "-o", "name"],
        env=environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == b"sandboxsession.sandhold.dev/quill\n", done.stderr


def test_the_image_has_it_too(field: Field) -> None:
    pods = field.cluster.list("Pod", SYSTEM, "app.kubernetes.io/component=operator")
    said = field.cluster.kubectl(
        "exec", "-n", SYSTEM, pods[0]["metadata"]["name"], "-c", "operator", "--", "sandhold", "--version"
    )
    assert said.startswith("sandhold ")
