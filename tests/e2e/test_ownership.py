"""What is not ours is reported and never touched, even under our own name; what is ours holds without an operator."""

import pytest

from installation.client import Cluster, Object
from sandhold import names
from testkit.cluster_client import IMAGE, Field, scaled_to_zero

pytestmark = pytest.mark.alone


def _foreign_pod(namespace: str, name: str) -> dict[str, object]:
    container = {"name": "agent", "image": IMAGE, "command": ["sleep", "infinity"], "imagePullPolicy": "IfNotPresent"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "runtimeClassName": "runc"}
    labels = {"team": "somebody-else"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": spec,
    }


def test_foreign_pods_are_left_alone_and_ours_run_on_without_an_operator(cluster: Cluster, field: Field) -> None:
    """Both begin while the operator is away."""
    field.sandbox("coder")
    runs_on = field.session("runs-on", "coder")
    runs_on.wait_phase("Ready")
    uid = runs_on.pod_uid()
    runs_on.shell("echo before > file")
    with scaled_to_zero(cluster, "sandhold-operator"):
        session = field.session("quill", "coder")
        name = names.pod_name("quill", session.found()["metadata"]["uid"], 1)
        foreign = cluster.create(_foreign_pod(field.namespace, name))
        runs_on.set_mode("Suspended")
        assert runs_on.shell("cat file").strip() == "before"
    refusal = session.wait_refusal("foreign_object")
    assert name in refusal["message"]
    _is_as_it_was(cluster, foreign)
    session.delete()
    session.wait_gone()
    assert cluster.get("Pod", field.namespace, name) is not None
    runs_on.wait_phase("Suspended")
    runs_on.resume()
    assert runs_on.pod_uid() != uid
    assert runs_on.shell("cat file").strip() == "before"


def _is_as_it_was(cluster: Cluster, foreign: Object) -> None:
    pod = cluster.get("Pod", foreign["metadata"]["namespace"], foreign["metadata"]["name"])
    assert pod is not None
    assert pod["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert pod["metadata"]["labels"] == {"team": "somebody-else"}
    assert "deletionTimestamp" not in pod["metadata"]
