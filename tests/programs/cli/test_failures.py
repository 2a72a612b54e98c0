"""What can be wrong between the command line and the API server: each in two lines, with an exit code of its own."""

import json
import socket
import subprocess
import urllib.error
from pathlib import Path

import pytest

from testkit import statuses
from testkit.cli_place import Place, eventually


def said(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    what, step = done.stderr.splitlines()
    assert what.startswith("sandhold: ")
    assert step.startswith("  next: ")
    return what.removeprefix("sandhold: "), step.removeprefix("  next: ")


def changed(place: Place, **user: str) -> str:
    config = json.loads(place.server.kubeconfig.read_text())
    config["users"][0]["user"] = user
    path = place.home / "changed.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


def test_a_stranger_is_told_to_sign_in(place: Place) -> None:
    done = place.run("session", "ls", "--kubeconfig", changed(place, token="wrong"))
    assert done.returncode == 5
    assert "does not accept the credentials (401)" in said(done)[0]


def test_who_may_not_is_told_which_right(place: Place) -> None:
    reader = place.user("reader", {"apiGroups": ["sandhold.dev"], "resources": ["*"], "verbs": ["get", "list"]})
    place.session(status=statuses.ready())
    assert place.run("session", "ls", KUBECONFIG=reader).returncode == 0
    done = place.run("session", "suspend", "quill", KUBECONFIG=reader)
    assert done.returncode == 5
    what, step = said(done)
    assert f"SandboxSession {place.namespace}/quill: patch is not allowed (403)" in what
    assert f"kubectl auth can-i patch sandboxsessions.sandhold.dev -n {place.namespace}" in step
    assert place.run("session", "ls", "-A", KUBECONFIG=reader).returncode == 5


def test_a_wait_needs_the_right_to_watch_and_says_so(place: Place) -> None:
    verbs = ["get", "list", "patch"]
    user = place.user("writer", {"apiGroups": ["sandhold.dev"], "resources": ["*"], "verbs": verbs})
    place.session(status=statuses.ready())
    done = place.run("session", "suspend", "quill", "--wait", KUBECONFIG=user)
    assert done.returncode == 5
    assert "watch is not allowed (403)" in done.stderr


def test_an_api_server_that_is_not_there(place: Place) -> None:
    port = 1  # a port that is given to nobody: a free one could be somebody's by the time it is dialled
    text = place.server.kubeconfig.read_text().replace(place.server.url, f"https://127.0.0.1:{port}")
    path = place.home / "away.kubeconfig"
    path.write_text(text)
    done = place.run("session", "ls", "--kubeconfig", str(path))
    assert done.returncode == 7
    what, step = said(done)
    assert f"https://127.0.0.1:{port}: not reachable" in what
    assert "--context" in step


def test_an_api_server_that_never_answers_is_given_up(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path = place.home / "silent.kubeconfig"
        path.write_text(place.server.kubeconfig.read_text().replace(place.server.url, url))
        done = place.run("session", "ls", "--kubeconfig", str(path), "--timeout", "1s")
    assert done.returncode == 3
    assert "not done within 1 s" in said(done)[0]


def test_an_unknown_certificate(place: Place) -> None:
    config = json.loads(place.server.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path = place.home / "other-ca.kubeconfig"
    path.write_text(json.dumps(config))
    done = place.run("session", "ls", "--kubeconfig", str(path))
    assert done.returncode == 7
    assert "certificate-authority-data" in said(done)[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no kubeconfig"),
        ("]", "kubeconfig"),
        ("{}", "kubeconfig"),
        ('{"contexts": [], "clusters": [], "users": []}', "no current context"),
    ],
)
def test_a_broken_kubeconfig(place: Place, content: str, words: str) -> None:
    path = place.home / "broken.kubeconfig"
    path.write_text(content)
    done = place.run("session", "ls", "--kubeconfig", str(path))
    assert done.returncode == 2
    assert words in done.stderr
    assert "get-contexts" in done.stderr


def test_no_kubeconfig_at_all(place: Place, tmp_path: Path) -> None:
    done = place.run("session", "ls", KUBECONFIG=str(tmp_path / "none"))
    assert done.returncode == 2
    assert said(done)[0] == f"kubeconfig {tmp_path / 'none'}: there is no such file"


def test_an_unknown_context(place: Place) -> None:
    done = place.run("session", "ls", "--context", "elsewhere")
    assert done.returncode == 2
    assert "there is no context elsewhere" in said(done)[0]


def test_the_contexts_own_namespace_is_used(place: Place) -> None:
    place.session("here")
    config = json.loads(place.server.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = place.namespace
    path = place.home / "namespaced.kubeconfig"
    path.write_text(json.dumps(config))
    process = place.start("session", "ls", "-o", "name", KUBECONFIG=str(path))
    output, _ = process.communicate(timeout=30)
    assert output == "sandboxsession.sandhold.dev/here\n"


def test_a_cluster_without_sandhold(place: Place) -> None:
    kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sandboxsnapshots.sandhold.dev"
    document = place.server.request("GET", kind)
    place.server.request("DELETE", kind)
    try:
        # A kind is served for a moment longer than it exists.
        eventually(lambda: place.run("snapshot", "ls").returncode != 0, "it is not served")
        done = place.run("snapshot", "ls")
        assert done.returncode == 4
        assert "the cluster serves no SandboxSnapshot objects" in done.stderr
        assert "install Sandhold" in done.stderr
    finally:
        _bring_back(place, document)


def _is_made(place: Place, document: dict[str, object]) -> bool:
    try:
        place.server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
    except urllib.error.HTTPError as error:
        assert error.code == 409  # noqa: PT017 - anything but the old one, that is still going, is a failure
        return False
    return True


def _bring_back(place: Place, document: dict[str, object]) -> None:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    fresh = {**document, "metadata": {"name": metadata["name"], "annotations": metadata.get("annotations")}}
    eventually(lambda: _is_made(place, fresh), "the kind that was deleted is gone, and made anew")
    eventually(lambda: place.run("snapshot", "ls").returncode == 0, "the kind is served again")


def test_exec_and_logs_of_a_session_that_is_not_ready_say_why(place: Place) -> None:
    place.session(status=statuses.at_rest(1))
    done = place.run("exec", "quill", "--", "true")
    assert done.returncode == 125
    what, step = said(done)
    assert what == (
        f"SandboxSession {place.namespace}/quill: not Ready: Suspended: "
        "The session was told to stop by spec.operatingMode."
    )
    assert step == f"sandhold session resume quill --wait -n {place.namespace}"
    done = place.run("logs", "quill")
    assert done.returncode == 8
    assert "there is no pod whose logs could be read (Suspended" in done.stderr


def test_exec_into_a_pod_that_is_gone(place: Place) -> None:
    place.session(status=statuses.ready())
    done = place.run("exec", "quill", "--", "true")
    assert done.returncode == 125
    assert f"Pod {place.namespace}/quill-0123456789-3" in said(done)[0]


def test_exec_without_a_command_is_wrong_usage(place: Place) -> None:
    assert place.run("exec", "quill").returncode == 2
    assert place.run("exec", "quill", "ls", "-la").returncode == 2


def test_no_verb_sweeps(place: Place) -> None:
    done = place.run("sweep", "--no-dry-run", "--installation-id", "x")
    assert done.returncode == 2
    assert "the command line deletes nothing" in done.stderr
