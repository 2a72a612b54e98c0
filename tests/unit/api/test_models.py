"""The models as Python sees them. That the API server agrees with them is shown in tests/e2e."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sandhold import names
from sandhold.api.crd import KINDS
from sandhold.api.meta import Condition
from sandhold.api.sandbox import AgentSandbox, AgentSandboxSpec
from sandhold.api.session import SandboxSession, SandboxSessionStatus
from sandhold.api.workspace import Entry

OBJECTS = Path(__file__).parents[2] / "e2e"
BY_NAME = {kind.__name__: kind for kind in KINDS}
# Refused before the schema is looked at, by the strict decoding that kubectl asks for; reading tolerates it.
ONLY_FOR_WRITERS = {"field-of-the-future"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def names_of(folder: str) -> list[str]:
    return sorted(path.stem for path in (OBJECTS / folder).glob("*.yaml"))


@pytest.mark.parametrize("name", sorted(set(names_of("wrong")) - ONLY_FOR_WRITERS))
def test_what_the_api_server_refuses_the_model_refuses(name: str) -> None:
    document = read(OBJECTS / "wrong" / f"{name}.yaml")
    with pytest.raises(ValidationError):
        BY_NAME[document["kind"]].model_validate(document)


@pytest.mark.parametrize("name", names_of("right"))
def test_what_the_api_server_takes_the_model_takes_and_writes_back_the_same(name: str) -> None:
    document = read(OBJECTS / "right" / f"{name}.yaml")
    kind = BY_NAME[document["kind"]]
    model = kind.model_validate(document)
    assert kind.model_validate(model.wire()) == model
    json.dumps(model.wire())


def test_unknown_fields_are_tolerated_everywhere() -> None:
    document = {
        "apiVersion": names.API_VERSION,
        "kind": "AgentSandbox",
        "metadata": {"name": "a", "managedFields": [{}], "selfLink": "x"},
        "spec": {"image": "p", "warmPool": {"replicas": 1}, "workspace": {"home": "/h", "entries": []}},
        "status": {"conditions": [], "capabilities": ["x"]},
    }
    assert AgentSandbox.model_validate(document).spec.image == "p"


def test_an_empty_spec_has_every_default() -> None:
    spec = AgentSandboxSpec.model_validate({})
    assert (spec.run_as_user, spec.run_as_group) == (10001, 10001)
    assert (spec.workspace.mount_path, spec.workspace.size) == ("/workspace", "1Gi")
    assert spec.snapshot.on_stop
    assert (spec.lifecycle.start_timeout_seconds, spec.lifecycle.stop_timeout_seconds) == (300, 600)


def test_models_are_frozen() -> None:
    spec = AgentSandboxSpec.model_validate({})
    with pytest.raises(ValidationError, match="frozen"):
        spec.image = "other"  # type: ignore[misc]


def test_the_wire_is_camel_case_with_the_spelling_of_kubernetes() -> None:
    status = SandboxSessionStatus(pod_name="p", pod_ip="10.0.0.1", pod_uid="u", runtime_class_name="gvisor")
    assert status.wire() == {
        "conditions": [],
        "podName": "p",
        "podIP": "10.0.0.1",
        "podUid": "u",
        "runtimeClassName": "gvisor",
    }


def test_times_keep_whole_seconds_in_utc() -> None:
    moment = datetime(2024, 5, 6, 9, 8, 9, 123456, tzinfo=timezone(timedelta(hours=2)))
    condition = Condition(type="Ready", status="True", last_transition_time=moment, reason="Running", message="")
    assert condition.wire()["lastTransitionTime"] == "2024-05-06T07:08:09Z"
    assert condition.last_transition_time == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError):
        SandboxSessionStatus.model_validate({"startedAt": "2024-05-06T07:08:09"})


@pytest.mark.parametrize(
    ("entry", "mode"),
    [
        ({"path": "a", "file": {}}, 0o644),
        ({"path": "a", "directory": {}}, 0o755),
        ({"path": "a", "mode": 0, "file": {"content": "x"}}, 0),
        ({"path": "a", "mode": 0o700, "directory": {}}, 0o700),
        ({"path": "a", "configMap": {"name": "n"}}, 0o644),
        ({"path": "a", "configMap": {"name": "n", "key": "k"}}, 0o644),
        ({"path": "a", "secret": {"name": "n"}}, 0o600),
        ({"path": "a", "secret": {"name": "n", "key": "k"}}, 0o600),
        ({"path": "a", "mode": 0o440, "secret": {"name": "n", "key": "k"}}, 0o440),
    ],
)
def test_a_mode_that_is_left_out_is_that_of_the_kind(entry: dict[str, Any], mode: int) -> None:
    assert Entry.model_validate(entry).effective_mode == mode


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ({"configMap": {"name": "n"}}, 0o755),
        ({"secret": {"name": "n"}}, 0o700),
        ({"configMap": {"name": "n"}, "mode": 0o640}, 0o750),
        ({"configMap": {"name": "n"}, "mode": 0o444}, 0o755),
        ({"secret": {"name": "n"}, "mode": 0}, 0o700),
    ],
)
def test_a_folder_of_keys_is_open_to_whoever_may_read_them(more: dict[str, Any], mode: int) -> None:
    assert Entry.model_validate({"path": "a", **more}).folder_mode == mode


@pytest.mark.parametrize(
    ("more", "is_ephemeral"),
    [
        ({"file": {}}, False),
        ({"configMap": {"name": "n"}}, False),
        ({"secret": {"name": "n"}}, True),
        ({"secret": {"name": "n"}, "ephemeral": False}, False),
        ({"directory": {}, "ephemeral": True}, True),
    ],
)
def test_secrets_are_ephemeral_unless_told_otherwise(more: dict[str, Any], is_ephemeral: bool) -> None:  # noqa: FBT001
    assert Entry.model_validate({"path": "a", **more}).is_ephemeral == is_ephemeral


@pytest.mark.parametrize("path", ["a", "a/b", "...", "a/..b", ".a", "ü/ñ", "a b", "-rf", "C:\\x"])
def test_paths_inside_the_workspace_are_entries(path: str) -> None:
    assert Entry.model_validate({"path": path, "file": {}}).path == path


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a\n", "a\x00b", "\x7f"]
)
def test_paths_that_leave_the_workspace_are_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        Entry.model_validate({"path": path, "file": {}})


@pytest.mark.parametrize(
    "path",
    [
        "/workspace",
        "/srv/work",
        "/home/x",
        "/tmp/x",  # noqa: S108 - a place in a pod
        "/runs",
        "/var/data",
        "/etcetera",
        "/usrlocal",
        "/home/x/projects/app",
    ],
)
def test_places_for_the_workspace(path: str) -> None:
    assert AgentSandboxSpec.model_validate({"workspace": {"mountPath": path}}).workspace.mount_path == path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/tmp",  # noqa: S108
        "/home",
        "/home/agent",
        "/etc",
        "/etc/x",
        "/run",
        "/run/sandhold",
        "/var",
        "/var/run/x",
        "/proc/1",
        "/a/../etc",
        "//a",
        "/a/b/c/d/e/f/g/h",
        "/" + "x" * (len(names.PATH_GATE) - 1),
    ],
)
def test_places_that_are_not_for_the_workspace(path: str) -> None:
    with pytest.raises(ValidationError):
        AgentSandboxSpec.model_validate({"workspace": {"mountPath": path}})


def test_whole_numbers_are_quantities_too_and_become_text() -> None:
    spec = AgentSandboxSpec.model_validate({"resources": {"limits": {"cpu": 2}}, "workspace": {"size": 1048576}})
    assert spec.resources is not None
    assert spec.resources.limits == {"cpu": "2"}
    assert spec.workspace.size == "1048576"


def test_env_and_command_have_a_common_bound() -> None:
    env = [{"name": f"A{index}", "value": "x" * 8192} for index in range(3)]
    with pytest.raises(ValidationError, match="16384 characters"):
        AgentSandboxSpec.model_validate({"env": env})
    with pytest.raises(ValidationError, match="16384 characters"):
        AgentSandboxSpec.model_validate({"command": ["x" * 8192], "args": ["y" * 8192, "z"]})


def test_every_kind_says_the_version_of_the_names_module() -> None:
    for kind in KINDS:
        assert kind.model_fields["api_version"].default == names.API_VERSION
        assert kind.model_fields["kind"].default == kind.__name__


def test_a_session_needs_its_sandbox() -> None:
    with pytest.raises(ValidationError, match="sandboxRef"):
        SandboxSession.model_validate({"metadata": {"name": "a"}, "spec": {}})


@pytest.mark.parametrize("path", sorted((OBJECTS.parents[1] / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_what_the_models_take(path: Path) -> None:
    ours = [each for each in yaml.safe_load_all(path.read_text()) if each["apiVersion"] == names.API_VERSION]
    assert ours
    for document in ours:
        found = BY_NAME[document["kind"]].model_validate(document)
        written = found.wire()["spec"]
        assert document["spec"].keys() <= written.keys()
