"""Which changes to a stored pod count."""

from collections.abc import Callable
from typing import Any

import pytest

from sandhold import names
from sandhold.backends.admit import Admission
from sandhold.desired.difference import is_outdated, pod_differences
from sandhold.desired.pod import PodMaterial, sandbox_pod
from sandhold.desired.situation import admission_of
from testkit import worlds

Pod = dict[str, Any]


@pytest.fixture
def asked() -> Pod:
    sandbox = worlds.a_sandbox({"ports": [{"name": "http", "port": 80}], "resources": {"limits": {"memory": "1024Mi"}}})
    admission = admission_of(sandbox, worlds.an_installation())
    assert isinstance(admission, Admission)
    material = PodMaterial(
        "demo",
        admission,
        worlds.ACCOUNT_UID,
        "keeper:test",
        "IfNotPresent",
        worlds.MOVER,
        worlds.CA,
    )
    return sandbox_pod(material, sandbox, worlds.a_session(), 1)


@pytest.fixture
def stored(asked: Pod) -> Pod:
    return worlds.with_server_defaults(worlds.with_server_metadata(asked, "uid"))


def agent(pod: Pod) -> Any:
    return pod["spec"]["containers"][0]


def keeper(pod: Pod) -> Any:
    return pod["spec"]["initContainers"][0]


def test_defaults_of_the_api_server_are_no_difference(asked: Pod, stored: Pod) -> None:
    assert pod_differences(asked, stored) == ()
    assert not is_outdated(asked, stored)


HARMLESS: dict[str, Callable[[Pod], Any]] = {
    "a quantity written otherwise": lambda pod: agent(pod)["resources"]["limits"].update(memory="1Gi"),
    "a limit where none was": lambda pod: agent(pod)["resources"]["limits"].update(cpu="2"),
    "an image that is always pulled": lambda pod: keeper(pod).update(imagePullPolicy="Always"),
    "a default spelt out": lambda pod: agent(pod)["securityContext"].update(procMount="Default"),
    "a label of somebody's": lambda pod: pod["metadata"]["labels"].update(team="a"),
    "an annotation of a network's": lambda pod: pod["metadata"]["annotations"].update({"cni/podIP": "10.0.0.1"}),
    "a toleration": lambda pod: pod["spec"]["tolerations"].append({"key": "a", "operator": "Exists"}),
    "a pull secret of the account's": lambda pod: pod["spec"].update(imagePullSecrets=[{"name": "registry"}]),
    "the overhead of the runtime": lambda pod: pod["spec"].update(overhead={"memory": "40Mi"}),
    "a node selector of the runtime": lambda pod: pod["spec"].update(nodeSelector={"gvisor": "yes"}),
    "a mover that moved": lambda pod: pod["metadata"]["annotations"].update({names.ANNOTATION_MOVER_ADDRESS: "x:1"}),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_does_no_harm_is_accepted(asked: Pod, stored: Pod, change: Callable[[Pod], Any]) -> None:
    change(stored)
    assert pod_differences(asked, stored) == ()


CONTAINER = {"name": "mesh", "image": "mesh"}
DIFFERENT: dict[str, tuple[Callable[[Pod], Any], str]] = {
    "container": (lambda pod: pod["spec"]["containers"].append(CONTAINER), "spec.containers[mesh] was added"),
    "init": (lambda pod: pod["spec"]["initContainers"].append(CONTAINER), "spec.initContainers[mesh] was added"),
    "ephemeral": (
        lambda pod: pod["spec"].update(ephemeralContainers=[CONTAINER]),
        "spec.ephemeralContainers was added",
    ),
    "twin": (
        lambda pod: pod["spec"]["containers"].append(agent(pod)),
        "spec.containers has items that cannot be told apart",
    ),
    "no keeper": (lambda pod: pod["spec"]["initContainers"].clear(), "spec.initContainers[keeper] was removed"),
    "volume": (
        lambda pod: pod["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
        "spec.volumes[host] was added",
    ),
    "mount": (
        lambda pod: agent(pod)["volumeMounts"].append({"name": "token", "mountPath": "/t"}),
        "spec.containers[agent].volumeMounts[/t] was added",
    ),
    "writable gate": (
        lambda pod: agent(pod)["volumeMounts"][0].pop("readOnly"),
        "spec.containers[agent].volumeMounts[/run/sandhold/gate/mounted/after/every/other/volume].readOnly was changed",
    ),
    "sub-path": (
        lambda pod: agent(pod)["volumeMounts"][0].update(subPath="x"),
        "spec.containers[agent].volumeMounts[/run/sandhold/gate/mounted/after/every/other/volume].subPath was added",
    ),
    "capability": (
        lambda pod: agent(pod)["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
        "spec.containers[agent].securityContext.capabilities.add was added",
    ),
    "escalation": (
        lambda pod: agent(pod)["securityContext"].pop("allowPrivilegeEscalation"),
        "spec.containers[agent].securityContext.allowPrivilegeEscalation was changed",
    ),
    "own user": (
        lambda pod: agent(pod)["securityContext"].update(runAsUser=0),
        "spec.containers[agent].securityContext.runAsUser was added",
    ),
    "privileged": (
        lambda pod: agent(pod)["securityContext"].update(privileged=True),
        "spec.containers[agent].securityContext.privileged was changed",
    ),
    "seccomp": (
        lambda pod: pod["spec"]["securityContext"].update(seccompProfile={"type": "Unconfined"}),
        "spec.securityContext.seccompProfile.type was changed",
    ),
    "sysctls": (
        lambda pod: pod["spec"]["securityContext"].update(sysctls=[{"name": "a", "value": "1"}]),
        "spec.securityContext.sysctls was added",
    ),
    "runtime": (lambda pod: pod["spec"].update(runtimeClassName="runc"), "spec.runtimeClassName was changed"),
    "no runtime": (lambda pod: pod["spec"].pop("runtimeClassName"), "spec.runtimeClassName was changed"),
    "host network": (lambda pod: pod["spec"].update(hostNetwork=True), "spec.hostNetwork was changed"),
    "host users": (lambda pod: pod["spec"].update(hostUsers=True), "spec.hostUsers was added"),
    "shared processes": (
        lambda pod: pod["spec"].update(shareProcessNamespace=True),
        "spec.shareProcessNamespace was changed",
    ),
    "account": (lambda pod: pod["spec"].update(serviceAccountName="admin"), "spec.serviceAccountName was changed"),
    "token": (
        lambda pod: pod["spec"].update(automountServiceAccountToken=True),
        "spec.automountServiceAccountToken was changed",
    ),
    "token by default": (
        lambda pod: pod["spec"].pop("automountServiceAccountToken"),
        "spec.automountServiceAccountToken was changed",
    ),
    "image": (lambda pod: agent(pod).update(image="proxy/agent"), "spec.containers[agent].image was changed"),
    "command": (lambda pod: agent(pod).update(command=["sh"]), "spec.containers[agent].command[0] was"),
    "arguments": (lambda pod: agent(pod).update(args=["-x"]), "spec.containers[agent].args was added"),
    "environment": (
        lambda pod: keeper(pod).update(env=[{"name": "SANDHOLD_GATE", "value": "/elsewhere"}]),
        "spec.initContainers[keeper].env was added",
    ),
    "variable": (
        lambda pod: agent(pod)["env"].append({"name": "A", "value": "b"}),
        "spec.containers[agent].env[A] was added",
    ),
    "host port": (
        lambda pod: agent(pod)["ports"][0].update(hostPort=80),
        "spec.containers[agent].ports[0].hostPort was added",
    ),
    "probe": (lambda pod: agent(pod).update(livenessProbe={"exec": {}}), "spec.containers[agent].livenessProbe was"),
    "hook": (
        lambda pod: agent(pod).update(lifecycle={"preStop": {"exec": {"command": ["rm"]}}}),
        "spec.containers[agent].lifecycle was added",
    ),
    "another hook": (
        lambda pod: keeper(pod)["lifecycle"].update(preStop={"exec": {"command": ["rm"]}}),
        "spec.initContainers[keeper].lifecycle.preStop.exec.command has fewer items",
    ),
    "no hook": (
        lambda pod: keeper(pod)["lifecycle"].pop("preStop"),
        "spec.initContainers[keeper].lifecycle.preStop was removed",
    ),
    "deadline": (lambda pod: pod["spec"].update(activeDeadlineSeconds=1), "spec.activeDeadlineSeconds was added"),
    "restart policy": (lambda pod: keeper(pod).pop("restartPolicy"), "spec.initContainers[keeper].restartPolicy was"),
    "smaller limit": (
        lambda pod: agent(pod)["resources"]["limits"].update(memory="1G"),
        "spec.containers[agent].resources.limits.memory was changed",
    ),
    "another token": (
        lambda pod: pod["spec"]["volumes"][6]["projected"]["sources"].append({"serviceAccountToken": {"path": "k"}}),
        "spec.volumes[token].projected.sources has more items",
    ),
    "label": (
        lambda pod: pod["metadata"]["labels"].update({names.LABEL_SANDBOX_UID: "x"}),
        f"metadata.labels[{names.LABEL_SANDBOX_UID}] was changed",
    ),
    "owner": (lambda pod: pod["metadata"].pop("ownerReferences"), "metadata.ownerReferences has fewer items"),
    "gVisor flag": (
        lambda pod: pod["metadata"]["annotations"].update({"dev.gvisor.flag.network": "host"}),
        "metadata.annotations[dev.gvisor.flag.network] was added",
    ),
    "networks": (
        lambda pod: pod["metadata"]["annotations"].update({"k8s.v1.cni.cncf.io/networks": "other"}),
        "metadata.annotations[k8s.v1.cni.cncf.io/networks] was added",
    ),
}


@pytest.mark.parametrize(("change", "told"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_changes_the_isolation_is_told(asked: Pod, stored: Pod, change: Callable[[Pod], Any], told: str) -> None:
    change(stored)
    found = pod_differences(asked, stored)
    assert len(found) == 1, found
    assert found[0].startswith(told)


def test_a_pod_of_an_older_spec_is_outdated_and_not_altered(asked: Pod) -> None:
    older = worlds.a_pod(sandbox=worlds.a_sandbox({"image": "agent:older"}))
    assert is_outdated(asked, older)
