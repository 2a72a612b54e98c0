"""Helm install or upgrade of the tree's own chart with the tree's own images, and the Secret of the store.

Done again it changes nothing: the MAC keys of the store are made once and never replaced, since every archive that is
there depends on them.
"""

import base64
import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from imaging.builds import Built
from imaging.staging import REPOSITORY
from installation.client import Cluster, Object, until
from testbed import places
from testbed.commands import run
from testbed.failure import TestbedError

NAMESPACE = "sandhold-system"
RELEASE = "sandhold"
STORE_SECRET = "sandhold-store-main"  # noqa: S105 - a name
INSTALLATION = "testbed"
# For the tests alone: a store whose bucket is not there, and a tier whose RuntimeClass is not there.
# Sorted behind `main`: the first store by name is the default.
ABSENT_STORE = "nowhere"
ABSENT_BUCKET = "sandhold-absent"
ABSENT_TIER = "ghost"
DEPLOYMENTS = ("sandhold-operator", "sandhold-mover")
_HELM_SECONDS = 90
_READY_SECONDS = 180
_RESTARTS = 3


def install(cluster: Cluster, images: Sequence[Built], *, for_tests: bool = False) -> float:
    """Install or upgrade and wait until operator and movers are ready; returns the seconds it took."""
    began = time.monotonic()
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    _ensure_store_secret(cluster)
    values = REPOSITORY / "build" / "values.json"
    values.parent.mkdir(exist_ok=True)
    values.write_text(json.dumps(_values(images, for_tests=for_tests), indent=2))
    helm = [str(places.cache() / "bin" / "helm"), "--kubeconfig", str(places.kubeconfig()), "--namespace", NAMESPACE]
    chart = str(REPOSITORY / "charts" / "sandhold")
    # Forced: an earlier `kubectl apply` of the same objects owns fields of them, and this tree counts.
    words = ["upgrade", "--install", RELEASE, chart, "--values", str(values), "--force-conflicts"]
    run([*helm, *words], timeout=_HELM_SECONDS)
    try:
        until("operator and mover are ready", lambda: _is_rolled_out(cluster), seconds=_READY_SECONDS, every=0.3)
    except TestbedError as error:
        raise TestbedError(f"{error}\n{_state(cluster)}") from error
    return time.monotonic() - began


def _is_rolled_out(cluster: Cluster) -> bool:
    """Whether the pods of the newest kind are ready and the old ones gone; a crash loop is an error at once.

    Not `helm --wait`, which waits for a program that crashes again and again until its time is over.
    """
    deployments = [cluster.get("Deployment", NAMESPACE, name) for name in DEPLOYMENTS]
    current = {d["spec"]["template"]["spec"]["containers"][0]["image"] for d in deployments if d}
    for pod in cluster.list("Pod", NAMESPACE):
        for container in pod["status"].get("containerStatuses", []):
            crashes = container["restartCount"] >= _RESTARTS and not container["ready"]
            if crashes and pod["spec"]["containers"][0]["image"] in current:
                raise TestbedError(f"{pod['metadata']['name']} ended {container['restartCount']} times")
    return all(_is_current(deployment) for deployment in deployments)


def _is_current(deployment: Object | None) -> bool:
    if deployment is None:
        return False
    spec, status = deployment["spec"], deployment["status"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    observed: int = status.get("observedGeneration", 0)
    generation: int = deployment["metadata"]["generation"]
    return observed == generation and counts == [spec["replicas"]] * len(counts)


def _state(cluster: Cluster) -> str:
    """What is there when an installation fails, so that the log alone tells why."""
    selectors = [f"app.kubernetes.io/component={name.rpartition('-')[2]}" for name in DEPLOYMENTS]
    said = []
    for words in (
        ("get", "pods,deployments", "-n", NAMESPACE, "-o", "wide"),
        ("get", "events", "-n", NAMESPACE, "--field-selector=type=Warning", "--sort-by=.lastTimestamp"),
        *(("logs", "-n", NAMESPACE, "-l", selector, "--tail=30", "--prefix") for selector in selectors),
    ):
        try:
            done = cluster.try_kubectl(*words, timeout=20)
            said.append(f"$ kubectl {' '.join(words)}\n{done.stdout}{done.stderr}")
        except TestbedError as error:
            said.append(str(error))
    return "\n".join(said)


def _ensure_store_secret(cluster: Cluster) -> None:
    if cluster.get("Secret", NAMESPACE, STORE_SECRET):
        return
    content = {
        "access-key-id": places.S3_ACCESS_KEY,
        "secret-access-key": places.S3_SECRET_KEY,
        "mac-keys.json": json.dumps({"current": "first", "keys": {"first": secrets.token_hex(32)}}),
    }
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": NAMESPACE, "name": STORE_SECRET},
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in content.items()},
        }
    )


def _values(images: Sequence[Built], *, for_tests: bool) -> Object:
    """The chart's values for this cluster."""
    tags = {image.name: image.reference.rpartition(":") for image in images}
    agent = next(image.moving for image in images if image.name == "sample-agent")
    stores: dict[str, Any] = {"main": _store(places.S3_BUCKET)}
    classes = {"runc": "runc", "gvisor": "gvisor"}
    if for_tests:
        stores[ABSENT_STORE] = _store(ABSENT_BUCKET)
        classes[ABSENT_TIER] = "no-such-runtime"
    tiers = {
        name: {"runtime_class": runtime, "egress": {"cni": {}}, "default_image": agent}
        for name, runtime in classes.items()
    }
    return {
        "image": {"repository": tags["sandhold"][0], "tag": tags["sandhold"][2]},
        "keeperImage": {"repository": tags["sandhold-keeper"][0], "tag": tags["sandhold-keeper"][2]},
        "backends": {
            "installation_id": INSTALLATION,
            "default_tier": "gvisor",
            "tiers": tiers,
            "stores": stores,
            "default_store": "main",
        },
        "stores": {name: {"existingSecret": STORE_SECRET} for name in stores},
        # Two sweeps in seconds and not in a quarter of an hour: people watch the demonstration.
        "operator": {"sweep": {"intervalSeconds": 5, "graceSeconds": 3}},
    }


def _store(bucket: str) -> Object:
    return {"type": "s3", "endpoint": places.S3_URL, "region": places.S3_REGION, "bucket": bucket}
