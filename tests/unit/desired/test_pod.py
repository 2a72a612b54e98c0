"""The pod that is asked for."""

from typing import Any

import pytest

from sandhold import names
from sandhold.api.quantity import quantity_bytes
from sandhold.backends.admit import Admission
from sandhold.desired import environment, volumes
from sandhold.desired.pod import PodMaterial, mover_patch, sandbox_pod
from sandhold.desired.situation import admission_of
from testkit import worlds


def built(sandbox: Any = None, session: Any = None, epoch: int = 1) -> dict[str, Any]:
    sandbox = sandbox or worlds.a_sandbox()
    admission = admission_of(sandbox, worlds.an_installation())
    assert isinstance(admission, Admission)
    material = PodMaterial("demo", admission, worlds.ACCOUNT_UID, "keeper:test", "Always", worlds.MOVER, worlds.CA)
    return sandbox_pod(material, sandbox, session or worlds.a_session(), epoch)


def mounts(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in container["volumeMounts"]}


def test_its_name_says_session_and_epoch_and_nothing_else_can_have_it() -> None:
    first, second = built(epoch=1)["metadata"], built(epoch=2)["metadata"]
    assert first["name"] == names.pod_name("quill", worlds.SESSION_UID, 1)
    assert second["name"] != first["name"]
    assert first["annotations"][names.ANNOTATION_EPOCH] == "1"


def test_nothing_of_the_session_or_the_sandbox_is_copied_to_it() -> None:
    session = worlds.a_session(labels={"team": "red"}, annotations={"secret": "x"})
    sandbox = worlds.a_sandbox(labels={"team": "blue"}, annotations={"dev.gvisor.flag.network": "host"})
    metadata = built(sandbox, session)["metadata"]
    assert "team" not in metadata["labels"]
    assert all(key.startswith(f"{names.GROUP}/") for key in metadata["annotations"])


def test_both_containers_have_no_privilege_and_no_writable_root() -> None:
    spec = built()["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_agent_cannot_write_the_gate_and_sees_nothing_of_the_keepers() -> None:
    spec = built()["spec"]
    agent, keeper = mounts(spec["containers"][0]), mounts(spec["initContainers"][0])
    assert agent["gate"]["readOnly"] is True
    assert "readOnly" not in keeper["gate"]
    assert set(keeper) - set(agent) == {"keeper", "token", "podinfo"}
    assert agent["workspace"]["mountPath"] == "/workspace"
    assert keeper["workspace"]["mountPath"] == "/run/sandhold/workspace"


def test_the_only_token_is_the_keepers_for_the_mover() -> None:
    spec = built()["spec"]
    assert spec["automountServiceAccountToken"] is False
    tokens = [each["projected"] for each in spec["volumes"] if "projected" in each]
    assert tokens == [
        {
            "sources": [
                {"serviceAccountToken": {"audience": "sandhold-mover", "expirationSeconds": 3600, "path": "token"}}
            ]
        }
    ]


def test_its_owner_is_the_account_and_never_a_custom_object() -> None:
    (owner,) = built()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ServiceAccount", worlds.ACCOUNT_UID, True)


def test_the_agent_runs_init_from_the_mount_path_wherever_it_shall_work() -> None:
    agent = built(worlds.a_sandbox({"workingDir": "/workspace/deep/down"}))["spec"]["containers"][0]
    assert agent["command"] == [names.PATH_INIT]
    assert "args" not in agent
    assert agent["workingDir"] == "/workspace"
    assert agent["readinessProbe"]["exec"]["command"] == [names.PATH_INIT, "ready"]


def test_the_keeper_is_a_native_sidecar_that_installs_init_before_the_agent_starts() -> None:
    (keeper,) = built()["spec"]["initContainers"]
    assert keeper["restartPolicy"] == "Always"
    assert keeper["command"] == ["/sandhold-keeper", "keeper"]
    hook = keeper["lifecycle"]["postStart"]["exec"]["command"]
    assert hook == ["/sandhold-keeper", "install", names.PATH_INIT]


@pytest.mark.parametrize("size", ["1Mi", "1Gi", "50Gi"])
def test_no_volume_can_fill_the_pod_before_it_fills_itself(size: str) -> None:
    spec = built(worlds.a_sandbox({"workspace": {"size": size}}))["spec"]
    limits = {each["name"]: int(each["emptyDir"]["sizeLimit"]) for each in spec["volumes"] if "emptyDir" in each}
    assert limits["workspace"] == 2 * quantity_bytes(size)
    disk = int(spec["initContainers"][0]["resources"]["limits"]["ephemeral-storage"])
    assert disk > sum(limits.values())
    assert "ephemeral-storage" in spec["initContainers"][0]["resources"]["requests"]


def test_the_environment_is_defaults_then_the_sandboxs_then_the_sessions() -> None:
    sandbox = worlds.a_sandbox({"env": [{"name": "A", "value": "sandbox"}, {"name": "HOME", "value": "/elsewhere"}]})
    session = worlds.a_session({"env": [{"name": "A", "value": "session"}, {"name": "B", "value": "$(A) costs 5$"}]})
    found = environment.agent_environment(sandbox.spec.env, session.spec.env)
    assert (found["A"], found["HOME"], found["B"]) == ("session", "/elsewhere", "$(A) costs 5$")
    assert set(found) == {*environment.DEFAULTS, "A", "B"}
    stood = {each["name"]: each["value"] for each in built(sandbox, session)["spec"]["containers"][0]["env"]}
    assert stood["B"] == "$$(A) costs 5$$"


def test_the_intent_changes_with_the_spec_and_not_with_the_mover() -> None:
    def intent(pod: dict[str, Any]) -> str:
        return str(pod["metadata"]["annotations"][names.ANNOTATION_INTENT])

    assert intent(built()) == intent(built())
    assert intent(built()) != intent(built(worlds.a_sandbox({"image": "agent:other"})))
    moved = built()
    moved["metadata"]["annotations"][names.ANNOTATION_MOVER_ADDRESS] = "10.0.0.1:7443"
    assert intent(moved) == intent(built())


def test_a_moved_mover_is_told_and_a_mover_in_place_is_not() -> None:
    pod = worlds.a_pod()
    assert mover_patch(pod, worlds.MOVER, worlds.CA) is None
    patch = mover_patch(pod, "10.96.0.99:7443", worlds.CA)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {
        names.ANNOTATION_MOVER_ADDRESS: "10.96.0.99:7443",
        names.ANNOTATION_MOVER_CA: worlds.CA,
    }
    assert "spec" not in patch


def test_what_the_podinfo_files_hold_are_the_annotations_that_are_patched() -> None:
    (podinfo,) = [each for each in volumes.pod_volumes(worlds.a_sandbox()) if each["name"] == "podinfo"]
    fields = {each["path"]: each["fieldRef"]["fieldPath"] for each in podinfo["downwardAPI"]["items"]}
    assert fields == {
        "mover-address": f"metadata.annotations['{names.ANNOTATION_MOVER_ADDRESS}']",
        "mover-ca": f"metadata.annotations['{names.ANNOTATION_MOVER_CA}']",
    }


def test_placement_and_secrets_are_passed_on() -> None:
    sandbox = worlds.a_sandbox(
        {
            "imagePullSecrets": [{"name": "registry"}],
            "pod": {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
        }
    )
    spec = built(sandbox)["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
