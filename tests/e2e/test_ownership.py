"""What is not ours is reported and never touched, even under our own name; what is ours holds without an operator."""

import pytest

from installation.client import Cluster
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


def test_a_foreign_pod_of_our_name_is_reported_and_left_alone(cluster: Cluster, field: Field) -> None:
    field.sandbox("coder")
    with scaled_to_zero(cluster, "sandhold-operator"):
        session = field.session("quill", "coder")
        name = names.pod_name("quill", session.found()["metadata"]["uid"], 1)
        before = cluster.create(_foreign_pod(field.namespace, name))
    refusal = session.wait_refusal("foreign_object")
    assert name in refusal["message"]
    pod = cluster.get("Pod", field.namespace, name)
    assert pod is not None
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]
    assert pod["metadata"]["labels"] == {"team": "somebody-else"}
    assert "deletionTimestamp" not in pod["metadata"]
    session.delete()
    field.cluster.kubectl(
        "wait", "--for=delete", "-n", field.namespace, "sandboxsession/quill", "--timeout=60s", timeout=70
    )
    assert cluster.get("Pod", field.namespace, name) is not None


def test_a_running_session_does_not_need_the_operator(cluster: Cluster, field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    uid = session.pod_uid()
    session.shell("echo before > file")
    with scaled_to_zero(cluster, "sandhold-operator"):
        session.set_mode("Suspended")
        assert session.shell("cat file").strip() == "before"
    session.wait_phase("Suspended")
    session.resume()
    assert session.pod_uid() != uid
    assert session.shell("cat file").strip() == "before"
