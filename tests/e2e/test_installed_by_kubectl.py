"""`kubectl apply -k` of the example is a whole installation, and what was there before lives through every change.

The cluster's own installation is Helm's: it is upgraded, it goes, kubectl's takes its place, and in the end Helm takes
it over again.
"""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from installation.client import Cluster, until
from installation.deploying import DEPLOYMENTS, RELEASE
from testbed import places
from testbed.commands import run
from testkit.cluster_client import REPOSITORY, SYSTEM, Field, Session

pytestmark = pytest.mark.alone

CHART = REPOSITORY / "charts" / "sandhold"
REGISTRY = "registry.example.org/"


def helm(*arguments: str) -> str:
    program = [str(places.cache() / "bin" / "helm"), "--kubeconfig", str(places.kubeconfig()), "--namespace", SYSTEM]
    return run([*program, *arguments], timeout=120)


def is_rolled_out(cluster: Cluster, name: str) -> bool:
    found = cluster.get("Deployment", SYSTEM, name)
    if found is None:
        return False
    status = found["status"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    return counts == [1, 1, 1] and status.get("observedGeneration") == found["metadata"]["generation"]


def overlay_of(values: dict[str, Any], folder: Path) -> Path:
    """The example overlay with what it says CHANGE at changed: images, backends file, stores."""
    shutil.copytree(REPOSITORY / "manifests", folder)
    example = folder / "overlays" / "example"
    image, keeper = values["image"], values["keeperImage"]
    kustomization = yaml.safe_load((example / "kustomization.yaml").read_text())
    kustomization["images"] = [{"name": "sandhold", "newName": image["repository"], "newTag": image["tag"]}]
    (example / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    (example / "sandbox-backends.json").write_text(json.dumps(values["backends"]))
    operator = (example / "operator.yaml").read_text()
    changed = operator.replace(f"{REGISTRY}sandhold-keeper:0.1.0", f"{keeper['repository']}:{keeper['tag']}")
    assert changed != operator, "the example names the keeper's image somewhere else"
    (example / "operator.yaml").write_text(changed)
    (example / "mover.yaml").write_text(yaml.safe_dump(_with_stores((example / "mover.yaml").read_text(), values)))
    return example


def _with_stores(text: str, values: dict[str, Any]) -> dict[str, Any]:
    """The patch of the mover with each store instead of the example's one."""
    patch: dict[str, Any] = yaml.safe_load(text)
    pod = patch["spec"]["template"]["spec"]
    [mount], [volume] = pod["containers"][0]["volumeMounts"], pod["volumes"]
    stores = {f"store-{name}": (name, each["existingSecret"]) for name, each in values["stores"].items()}
    pod["containers"][0]["volumeMounts"] = [
        {**mount, "name": key, "mountPath": f"/etc/sandhold/stores/{name}"} for key, (name, _) in stores.items()
    ]
    pod["volumes"] = [
        {**volume, "name": key, "secret": {**volume["secret"], "secretName": secret}}
        for key, (_, secret) in stores.items()
    ]
    return patch


@pytest.fixture(scope="module")
def values(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the cluster's installation was made with; Helm has it back in the end, whatever happened."""
    given: dict[str, Any] = json.loads(helm("get", "values", RELEASE, "--output", "json"))
    kept = tmp_path_factory.mktemp("helm") / "values.json"
    kept.write_text(json.dumps(given))
    yield given
    helm("upgrade", "--install", RELEASE, str(CHART), "--values", str(kept), "--take-ownership", "--force-conflicts")
    until("Helm's installation is back", lambda: all(is_rolled_out(cluster, each) for each in DEPLOYMENTS), seconds=120)


def told(page: str, word: str) -> list[list[str]]:
    """The commands of kubectl in a page of the documentation that hold a word, as they stand there."""
    lines = (REPOSITORY / "docs" / "how-to" / f"{page}.md").read_text().splitlines()
    found = [shlex.split(line)[1:] for line in lines if line.startswith("kubectl ") and word in line]
    assert found, f"{page}.md tells of no such command any more: {word}"
    return found


def test_an_upgrade_leaves_running_sessions_alone(field: Field, cluster: Cluster, values: dict[str, Any]) -> None:
    assert values["image"]["repository"]
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo before > /workspace/work")
    pod, programs = session.pod_uid(), {each["metadata"]["uid"] for each in cluster.list("Pod", SYSTEM)}
    note = ("operator.podAnnotations.upgraded=yes", "mover.podAnnotations.upgraded=yes")
    helm("upgrade", RELEASE, str(CHART), "--reuse-values", *(part for each in note for part in ("--set", each)))
    until("the new pods run", lambda: all(is_rolled_out(cluster, each) for each in DEPLOYMENTS), seconds=120)
    until(
        "the old ones are gone",
        lambda: not programs & {each["metadata"]["uid"] for each in cluster.list("Pod", SYSTEM)},
        seconds=90,
    )
    assert session.found()["status"]["phase"] == "Ready"
    assert session.pod_uid() == pod
    assert session.suspend()["key"]
    session.resume()
    assert session.shell("cat /workspace/work") == "before\n"


def test_kubectl_installs_and_sessions_live_through_the_change(
    field: Field, cluster: Cluster, values: dict[str, Any], tmp_path: Path
) -> None:
    field.sandbox("coder")
    session, given_up = field.session("quill", "coder"), field.session("given-up", "coder")
    for each in (session, given_up):
        each.wait_phase("Ready")
        each.shell(f"echo {each.name} > /workspace/work")
    pod, orphan = session.pod_uid(), given_up.pod()["metadata"]["name"]

    helm("uninstall", RELEASE, "--wait")
    until("Helm's pods are gone", lambda: not cluster.list("Pod", SYSTEM), seconds=90)
    cluster.kubectl("get", "service", "sandhold-mover", "-n", SYSTEM)  # running sandboxes know its address
    assert session.found()["status"]["phase"] == "Ready", "the kinds and their objects stay"
    assert session.pod_uid() == pod
    _take_the_finalizer_off(field, given_up)
    assert cluster.execute(field.namespace, orphan, "cat", "/workspace/work") == "given-up\n", "its pod runs on"
    cluster.delete("Pod", field.namespace, orphan)

    overlay = overlay_of(values, tmp_path / "manifests")
    apply = ("apply", "--server-side", "--force-conflicts", "-k", str(overlay))
    cluster.kubectl(*apply)
    until("kubectl's installation runs", lambda: all(is_rolled_out(cluster, each) for each in DEPLOYMENTS), seconds=120)
    before = versions(cluster)
    cluster.kubectl(*apply)
    assert versions(cluster) == before, "applied again it changes nothing"

    assert session.suspend()["key"]
    session.resume()
    assert session.pod_uid() != pod
    assert session.shell("cat /workspace/work") == "quill\n"
    second = field.session("second", "coder")
    second.wait_phase("Ready")
    second.delete()
    until("the second session goes with its archive", second.is_gone, seconds=90)

    for command in told("uninstall", "app.kubernetes.io/part-of=sandhold"):
        cluster.kubectl(*command)
    until("kubectl's pods are gone", lambda: not cluster.list("Pod", SYSTEM), seconds=90)
    assert session.found()["status"]["phase"] == "Ready"


def _take_the_finalizer_off(field: Field, session: Session) -> None:
    """By hand, as it is documented: nobody archives the session, and it goes."""
    session.delete()
    assert not session.is_gone()
    [command] = told("ways-out", "patch sbs quill")
    field.cluster.kubectl(*(session.name if word == "quill" else word for word in command), "-n", field.namespace)
    until("Kubernetes forgets the session", session.is_gone, seconds=60)
    assert not field.cluster.list("SandboxSnapshot", field.namespace), "that archived nothing"


def versions(cluster: Cluster) -> dict[str, str]:
    """The generation of what kubectl made here, by name."""
    kinds = "deployments,services,configmaps,serviceaccounts,networkpolicies,roles,rolebindings"
    found = json.loads(cluster.kubectl("get", kinds, "-n", SYSTEM, "-o", "json"))["items"]
    ours = [each for each in found if "app.kubernetes.io/part-of" in each["metadata"].get("labels", {})]
    assert len(ours) > 8
    # A status has versions of its own; what has no generation changes its version with its content alone.
    return {
        f"{each['kind']}/{each['metadata']['name']}": str(
            each["metadata"].get("generation") or each["metadata"]["resourceVersion"]
        )
        for each in ours
    }
