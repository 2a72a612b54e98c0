"""The chart as Helm renders it: what it gives and refuses. Needs the helm of `hack/cluster build`, and no cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandhold import __version__, names
from sandhold.backends.model import Backends
from sandhold.cluster.installation import API_SERVICE
from testbed import places

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "sandhold"
VALUES = CHART / "ci" / "values.yaml"
NAMESPACE = "sandhold-system"

Objects = list[dict[str, Any]]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = places.cache() / "bin" / "helm"
    assert program.exists(), "helm is not built: run `hack/cluster build`"
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)


def render(*settings: str) -> Objects:
    done = helm("template", "rendered", str(CHART), "--namespace", NAMESPACE, "--values", str(VALUES), *settings)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refused(*settings: str) -> str:
    done = helm("template", "rendered", str(CHART), "--namespace", NAMESPACE, "--values", str(VALUES), *settings)
    assert done.returncode != 0
    return done.stderr


def only(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{kind} {name}: {len(found)}"
    return found[0]


def pod_of(objects: Objects, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = only(objects, "Deployment", name)["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def rendered() -> Objects:
    return render()


def test_it_lints_without_a_complaint() -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(VALUES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_the_schema_is_generated_from_the_model() -> None:
    script = REPOSITORY / "hack" / "generate" / "chart_schema"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_rendered_backends_file_is_one_that_the_operator_reads(rendered: Objects) -> None:
    data = only(rendered, "ConfigMap", "sandhold-backends")["data"]
    backends = Backends.model_validate(json.loads(data["sandbox-backends.json"]))
    assert backends.installation_id == "lint"
    assert sorted(backends.stores) == ["main"]


def test_large_numbers_reach_the_backends_file_whole() -> None:
    objects = render("--set", "backends.sandbox_ttl_seconds=31536000")
    text = only(objects, "ConfigMap", "sandhold-backends")["data"]["sandbox-backends.json"]
    assert Backends.model_validate(json.loads(text)).sandbox_ttl_seconds == 31536000


def test_names_that_yaml_would_take_for_something_else_stay_names() -> None:
    objects = render("--set-string", "stores.main.existingSecret=123", "--set-string", "mover.priorityClassName=1e3")
    spec = pod_of(objects, "sandhold-mover")
    assert spec["priorityClassName"] == "1e3"
    secrets = [volume["secret"]["secretName"] for volume in spec["volumes"] if volume["name"] == "store-main"]
    assert secrets == ["123"]


def test_no_cluster_role_of_ours_speaks_of_secrets(rendered: Objects) -> None:
    roles = [o for o in rendered if o["kind"] == "ClusterRole"]
    assert len(roles) == 4
    resources = {r for role in roles for rule in role["rules"] for r in rule["resources"]}
    assert "pods" in resources
    assert not [r for r in resources if r.split("/")[0] in {"secrets", "*"}]
    verbs = {v for role in roles for rule in role["rules"] for v in rule["verbs"]}
    assert "*" not in verbs
    assert "escalate" not in verbs


def test_the_operator_cannot_run_commands_in_pods(rendered: Objects) -> None:
    role = only(rendered, "ClusterRole", f"sandhold-operator-{NAMESPACE}")
    resources = {r for rule in role["rules"] for r in rule["resources"]}
    assert not resources & {"pods/exec", "pods/attach", "pods/ephemeralcontainers", "pods/portforward"}


def test_only_two_secrets_can_be_read_and_by_name(rendered: Objects) -> None:
    rules = [rule for o in rendered if o["kind"] == "Role" for rule in o["rules"] if "secrets" in rule["resources"]]
    reading = [rule for rule in rules if rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in reading] == [[names.CA_SECRET, names.MOVER_TLS_SECRET]]


def test_the_two_services_that_are_read_are_named(rendered: Objects) -> None:
    """Addresses of other people's services are none of the operator's business."""
    roles = [o for o in rendered if o["kind"] in {"Role", "ClusterRole"}]
    reading = [(o["kind"], rule) for o in roles for rule in o["rules"] if "services" in rule["resources"]]
    assert [(kind, rule["resources"], rule.get("resourceNames"), rule["verbs"]) for kind, rule in reading] == [
        ("ClusterRole", ["services"], [API_SERVICE.name], ["get"]),
        ("Role", ["services"], [names.MOVER_SERVICE], ["get"]),
    ]


def test_the_mover_may_only_review_tokens(rendered: Objects) -> None:
    bound = [
        o["roleRef"]["name"]
        for o in rendered
        if o["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        if any(s["name"] == "sandhold-mover" for s in o["subjects"])
    ]
    assert bound == [f"sandhold-mover-{NAMESPACE}"]
    role = only(rendered, "ClusterRole", bound[0])
    assert role["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ]


def test_the_service_is_where_keepers_look_for_it_and_survives_an_uninstall(rendered: Objects) -> None:
    service = only(rendered, "Service", names.MOVER_SERVICE)
    assert service["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {"keepers": names.PORT_KEEPERS, "operators": names.PORT_OPERATORS, "canary": names.PORT_CANARY}


def test_the_selectors_find_the_pods(rendered: Objects) -> None:
    for name in ("sandhold-mover", "sandhold-operator"):
        deployment = only(rendered, "Deployment", name)["spec"]
        labels = deployment["template"]["metadata"]["labels"].items()
        assert deployment["selector"]["matchLabels"].items() <= labels
        policy = only(rendered, "NetworkPolicy", name)["spec"]
        assert policy["podSelector"]["matchLabels"].items() <= labels
    mover = only(rendered, "Deployment", "sandhold-mover")["spec"]["template"]["metadata"]["labels"].items()
    assert only(rendered, "Service", "sandhold-mover")["spec"]["selector"].items() <= mover


def test_everybody_reaches_keepers_and_canary_port_and_the_operator_alone_its_own(rendered: Objects) -> None:
    rules = only(rendered, "NetworkPolicy", "sandhold-mover")["spec"]["ingress"]
    admitted = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
    assert admitted.keys() == {names.PORT_KEEPERS, names.PORT_OPERATORS, names.PORT_CANARY, names.PORT_METRICS}
    assert admitted[names.PORT_KEEPERS] is None
    assert admitted[names.PORT_CANARY] is None
    operator = only(rendered, "Deployment", "sandhold-operator")["spec"]["template"]["metadata"]["labels"]
    [peer] = admitted[names.PORT_OPERATORS] or []
    assert peer["podSelector"]["matchLabels"].items() <= operator.items()
    assert "namespaceSelector" not in peer


def test_metrics_are_for_everybody_or_for_those_who_are_named(rendered: Objects) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    narrowed = render("--set", "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring")
    for objects, peers in ((rendered, None), (narrowed, [peer])):
        for name in ("sandhold-operator", "sandhold-mover"):
            rules = only(objects, "NetworkPolicy", name)["spec"]["ingress"]
            [rule] = [rule for rule in rules if {"port": names.PORT_METRICS, "protocol": "TCP"} in rule["ports"]]
            assert rule.get("from") == peers
            assert len(rule["ports"]) == 1


def test_the_form_of_the_log_reaches_both_programs() -> None:
    objects = render("--set", "operator.logFormat=text,mover.logFormat=text")
    for name in ("sandhold-operator", "sandhold-mover"):
        [container] = pod_of(objects, name)["containers"]
        assert {"name": "SANDHOLD_LOG_FORMAT", "value": "text"} in container["env"]


@pytest.mark.parametrize("name", ["sandhold-operator", "sandhold-mover"])
def test_pods_keep_the_restricted_standard(rendered: Objects, name: str) -> None:
    pod = pod_of(rendered, name)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_mover_alone_mounts_store_secrets_and_waits_for_its_certificate(rendered: Objects) -> None:
    secrets = {v["name"]: v["secret"] for v in pod_of(rendered, "sandhold-mover")["volumes"] if "secret" in v}
    assert secrets["tls"] == {"secretName": names.MOVER_TLS_SECRET, "optional": False, "defaultMode": 0o440}
    assert secrets["store-main"]["secretName"] == "sandhold-store-main"
    [container] = pod_of(rendered, "sandhold-mover")["containers"]
    assert {"name": "store-main", "mountPath": "/etc/sandhold/stores/main", "readOnly": True} in container[
        "volumeMounts"
    ]
    assert not [v for v in pod_of(rendered, "sandhold-operator")["volumes"] if "secret" in v]


def test_a_changed_backends_file_replaces_the_pods(rendered: Objects) -> None:
    changed = render("--set", "backends.sandbox_ttl_seconds=600")
    for name in ("sandhold-operator", "sandhold-mover"):
        before, after = (
            only(o, "Deployment", name)["spec"]["template"]["metadata"]["annotations"] for o in (rendered, changed)
        )
        assert before["checksum/backends"] != after["checksum/backends"]


def test_crds_are_those_of_the_tree_and_kept(rendered: Objects) -> None:
    files = {path.name: yaml.safe_load(path.read_text()) for path in (REPOSITORY / "crds").glob("*.yaml")}
    assert len(files) == 3
    crds = [o for o in rendered if o["kind"] == "CustomResourceDefinition"]
    for crd in crds:
        annotations = crd["metadata"]["annotations"]
        assert annotations.pop("helm.sh/resource-policy") == "keep"
    by_name = {crd["metadata"]["name"]: crd for crd in crds}
    for document in files.values():
        document["metadata"].setdefault("annotations", {})
        assert by_name[document["metadata"]["name"]] == document


# Values that templates lose easily: false, 0, null and what replaces a whole map.


def test_no_crds_when_told_so() -> None:
    assert not [o for o in render("--set", "crds.install=false") if o["kind"] == "CustomResourceDefinition"]


def test_crds_go_with_the_chart_when_told_so() -> None:
    crds = [o for o in render("--set", "crds.keep=false") if o["kind"] == "CustomResourceDefinition"]
    assert len(crds) == 3
    assert not [c for c in crds if "helm.sh/resource-policy" in c["metadata"].get("annotations", {})]


def test_no_policies_when_told_so() -> None:
    assert not [o for o in render("--set", "networkPolicy.enabled=false") if o["kind"] == "NetworkPolicy"]


def test_no_roles_for_users_when_told_so() -> None:
    roles = [o["metadata"]["name"] for o in render("--set", "rbac.aggregate=false") if o["kind"] == "ClusterRole"]
    assert sorted(roles) == [f"sandhold-mover-{NAMESPACE}", f"sandhold-operator-{NAMESPACE}"]


def test_zero_replicas_are_zero() -> None:
    objects = render("--set", "operator.replicas=0", "--set", "mover.replicas=0")
    assert [only(objects, "Deployment", n)["spec"]["replicas"] for n in ("sandhold-operator", "sandhold-mover")] == [
        0,
        0,
    ]


def test_placement_reaches_the_pods() -> None:
    objects = render(
        "--set", "mover.nodeSelector.disk=fast", "--set", "mover.tolerations[0].operator=Exists",
        "--set", "mover.priorityClassName=system-cluster-critical", "--set", "imagePullSecrets[0].name=pull",
        "--set", "mover.podLabels.team=platform", "--set", "mover.podAnnotations.note=kept",
    )  # fmt: skip
    pod = pod_of(objects, "sandhold-mover")
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    metadata = only(objects, "Deployment", "sandhold-mover")["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "platform"
    assert metadata["annotations"]["note"] == "kept"
    assert "nodeSelector" not in pod_of(objects, "sandhold-operator")


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    objects = render("--set", f"image.digest={digest}", "--set-string", "image.tag=1,keeperImage.tag=2")
    [container] = pod_of(objects, "sandhold-operator")["containers"]
    assert container["image"] == f"sandhold@{digest}"
    environment = {e["name"]: e.get("value") for e in container["env"]}
    assert environment["SANDHOLD_KEEPER_IMAGE"] == "sandhold-keeper:2"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("backends.installation_id=null", "installation_id"),
        ("backends.tiers.gvisor.egres.cni=x", "egres"),
        ("backends.sandbox_ttl_seconds=0", "sandbox_ttl_seconds"),
        ("operator.replica=2", "replica"),
        ("operator.workers=0", "workers"),
        ("mover.logFormat=xml", "logFormat"),
        ("mover.spool.sizeLimit=lots", "sizeLimit"),
        ("stores.other.existingSecret=x", "stores.other"),
        ("stores.main.existingSecret=null", "existingSecret"),
        ("crds.keep=maybe", "keep"),
        ("image.digest=sha256:1", "digest"),
    ],
)
def test_a_wrong_value_is_refused_and_named(setting: str, named: str) -> None:
    assert named in refused("--set", setting)


def test_a_store_without_its_secret_is_refused_and_named() -> None:
    assert "stores.other.existingSecret" in refused(
        "--set", "backends.stores.other.type=s3", "--set", "backends.stores.other.bucket=bucket"
    )
