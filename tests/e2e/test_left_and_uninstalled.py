"""The ground goes from under live sessions: namespace, operator, the whole chart. All of it comes back."""

import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from installation.client import Cluster, Object, until
from installation.deploying import NAMESPACE, RELEASE
from sandhold import names
from testbed import places
from testkit.cluster_client import REPOSITORY, STOP_SECONDS, Field, Session, scaled_to_zero
from testkit.cluster_fields import LABEL, clear, field_of
from testkit.fault_matrix import FaultMatrix

pytestmark = pytest.mark.alone

TIERS = ("runc", "gvisor")
WORK = "mkdir deep; head -c 300000 /dev/urandom > deep/work; ln -s deep/work link; echo small > file; chmod 400 file"
GONE_SECONDS = 120


def started(*fields: Field) -> dict[tuple[Field, str], Session]:
    """A session under each runtime in each namespace, always under the same names; all start at once."""
    made = {}
    for field, tier in itertools.product(fields, TIERS):
        field.sandbox(tier, tier)
        made[field, tier] = field.session(f"on-{tier}", tier)
    for session in made.values():
        session.wait_phase("Ready")
    return made


def at_work(*fields: Field) -> tuple[dict[tuple[Field, str], list[Object]], dict[str, str]]:
    """What their workspaces hold, and the pods of each runtime in the last namespace."""
    walks, pods = {}, {}
    for (field, tier), session in started(*fields).items():
        session.shell(WORK)
        walks[field, tier], pods[tier] = session.walk(), session.pod_uid()
    return walks, pods


def test_namespaces_are_deleted_with_live_sessions(
    cluster: Cluster, field: Field, matrix: FaultMatrix, testrun_uid: str
) -> None:
    """One while the operator is there, one while it is away; one of the same name finds its workspaces again."""
    away = field_of(cluster, "namespace-away", testrun_uid)
    before, _ = at_work(field, away)
    names_of = {
        field: "namespace deleted with live sessions",
        away: "namespace deleted while the operator is away",
    }
    faults = {(field, tier): matrix.begin(names_of[field], tier) for tier in TIERS}
    cluster.delete("Namespace", "", field.namespace)
    until("the namespace goes", lambda: _is_gone(cluster, field), seconds=GONE_SECONDS)
    with scaled_to_zero(cluster, "sandhold-operator"):
        faults |= {(away, tier): matrix.begin(names_of[away], tier) for tier in TIERS}
        cluster.delete("Namespace", "", away.namespace)
        until("its pods go", lambda: not away.pods(), seconds=GONE_SECONDS)
        held = cluster.list("SandboxSession", away.namespace)
        assert [names.FINALIZER_WORKSPACE in each["metadata"]["finalizers"] for each in held] == [True] * len(TIERS)
    until("the namespace goes when the operator is back", lambda: _is_gone(cluster, away), seconds=GONE_SECONDS)
    try:
        for each in (field, away):
            metadata = {"name": each.namespace, "labels": {LABEL: testrun_uid}}
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for key, session in started(field, away).items():
            faults[key].judge_workspace(before[key], session.walk(), is_same_pod=False)
    finally:
        stuck = clear(away)
    assert not stuck


def _is_gone(cluster: Cluster, field: Field) -> bool:
    return cluster.get("Namespace", "", field.namespace) is None


def test_the_chart_is_uninstalled_with_live_sessions_and_installed_again(
    cluster: Cluster, field: Field, matrix: FaultMatrix, tmp_path: Path
) -> None:
    """Agents work on without it; who is deleted meanwhile waits, archived when it is back; then all stop in order."""
    walks, pods = at_work(field)
    before = {tier: walks[field, tier] for tier in TIERS}
    leaving = field.session("leaves", "runc")
    leaving.wait_phase("Ready")
    leaving.shell(WORK)
    left = leaving.walk()
    faults = {tier: matrix.begin("chart uninstalled and installed again", tier) for tier in TIERS}
    of_the_deleted = matrix.begin("session deleted while the chart is uninstalled", "runc")
    with uninstalled(cluster, tmp_path):
        leaving.delete()
        assert {pod["metadata"]["uid"] for pod in field.pods()} >= set(pods.values())
        assert {tier: Session(field, f"on-{tier}").walk() for tier in TIERS} == before
        assert names.FINALIZER_WORKSPACE in leaving.found()["metadata"]["finalizers"]
    until("who was deleted goes", leaving.is_gone, seconds=STOP_SECONDS)
    for tier in TIERS:
        session = Session(field, f"on-{tier}")
        session.wait_phase("Ready")
        faults[tier].judge_workspace(before[tier], session.walk(), is_same_pod=session.pod_uid() == pods[tier])
        assert session.pod_uid() == pods[tier]
    again = field.session("leaves", "runc")
    again.wait_phase("Ready")
    of_the_deleted.judge_workspace(left, again.walk(), is_same_pod=False)
    runc = Session(field, "on-runc")
    runc.suspend()
    runc.resume()
    assert runc.walk() == before["runc"]


@contextmanager
def uninstalled(cluster: Cluster, folder: Path) -> Iterator[None]:
    """The release is away, and comes back as it was."""
    values = folder / "values.json"
    values.write_text(_helm("get", "values", RELEASE, "--output", "json"))
    json.loads(values.read_text())
    _helm("uninstall", RELEASE, "--wait", "--timeout", "60s")
    try:
        until("its programs are gone", lambda: not cluster.list("Pod", NAMESPACE), seconds=60)
        yield
    finally:
        _helm("install", RELEASE, str(REPOSITORY / "charts" / "sandhold"), "--values", str(values))
        for deployment in ("sandhold-operator", "sandhold-mover"):
            cluster.scale(NAMESPACE, deployment, 1)


def _helm(*words: str) -> str:
    program = [str(places.cache() / "bin" / "helm"), "--kubeconfig", str(places.kubeconfig()), "--namespace", NAMESPACE]
    done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
