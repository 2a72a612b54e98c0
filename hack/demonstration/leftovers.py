"""The step about orphans: a pod that lost its owner is collected, and what only looks like it stays.

The pods are real and small. They are made as the operator makes pods, by its field manager and with its labels; their
session never existed, which is what a lost one looks like.
"""

import uuid
from typing import Any

import yaml

from demonstration.stage import Stage
from installation.client import Cluster, Object, until
from sandhold import names

_IMAGE = "localhost/sample-agent:dev"
# Two sweeps and both graces of this installation, several times over.
_COLLECT_SECONDS = 90
_GONE_SECONDS = 60


def pod_of_nobody(namespace: str, installation_id: str, name: str, **labels: str) -> Object:
    """A pod as the operator labels one, of a session that does not exist. Labels given come on top."""
    uid = str(uuid.uuid4())
    ours = {
        names.LABEL_INSTALLATION: installation_id,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_KIND: names.KIND_AGENT,
        names.LABEL_SANDBOX: "coder",
        names.LABEL_SESSION_UID: uid,
    }
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container: dict[str, Any] = {
        "name": "agent",
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": security,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": names.pod_name(name, uid, 1),
            "labels": {**ours, **labels},
            "annotations": {
                names.ANNOTATION_OWNER: names.owner_value("SandboxSession", namespace, name, uid),
                names.ANNOTATION_EPOCH: "1",
            },
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }


def make_as_operator(cluster: Cluster, *documents: Object) -> str:
    """Create objects with the operator's own field manager: the API server notes who set which label."""
    manager = f"--field-manager={names.FIELD_MANAGER}"
    return cluster.kubectl("create", manager, "-f", "-", stdin=yaml.safe_dump_all(documents))


def tell(stage: Stage, cluster: Cluster, namespace: str, installation_id: str) -> None:
    """Make four pods of nobody, and have one of them collected."""
    orphan = pod_of_nobody(namespace, installation_id, "lost")
    spared = {
        "of an interactive WebUI": pod_of_nobody(
            namespace, installation_id, "webui", **{names.LABEL_KIND: names.KIND_WEBUI}
        ),
        "of the seed's WebUI": pod_of_nobody(
            namespace, installation_id, "seed", **{names.LABEL_FOREIGN_WEBUI: "webui"}
        ),
        "of another installation": pod_of_nobody(namespace, "another-one", "foreign"),
    }
    stage.show(make_as_operator(cluster, orphan, *spared.values()))
    shown = ["-L", f"{names.LABEL_INSTALLATION},{names.LABEL_KIND},{names.LABEL_FOREIGN_WEBUI}"]
    stage.kubectl(cluster, "get", "pods", "-n", namespace, *shown)
    before = {what: _uid(cluster, pod) for what, pod in spared.items()}
    name = orphan["metadata"]["name"]
    until("the orphan is gone", lambda: cluster.get("Pod", namespace, name) is None, seconds=_COLLECT_SECONDS)
    event = until("an Event tells of it", lambda: _event(cluster, namespace, name), seconds=_GONE_SECONDS)
    stage.say(f"  {event['reason']}: {event['note']}")
    stage.claim(
        "the orphan was collected, with what was read of its owner as the reason", holds="absent" in event["note"]
    )
    for what, uid in before.items():
        holds = uid is not None and uid == _uid(cluster, spared[what])
        stage.claim(f"the pod {what} stays", holds=holds, seen=spared[what]["metadata"]["name"])
    stage.kubectl(cluster, "get", "pods", "-n", namespace, *shown)
    words = [pod["metadata"]["name"] for pod in spared.values()]
    stage.kubectl(cluster, "delete", "pods", "-n", namespace, *words, timeout=_GONE_SECONDS)


def _uid(cluster: Cluster, pod: Object) -> str | None:
    """The UID of a pod that is there and is not being deleted."""
    found = cluster.get("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
    if found is None or "deletionTimestamp" in found["metadata"]:
        return None
    return str(found["metadata"]["uid"])


def _event(cluster: Cluster, namespace: str, name: str) -> Object | None:
    events = cluster.list("Event", namespace)
    return next((e for e in events if e["reason"] == "OrphanCollected" and e["regarding"]["name"] == name), None)
