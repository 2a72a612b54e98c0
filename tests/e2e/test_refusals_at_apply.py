"""Wrong objects are refused by the API server itself, each with a sentence that names its field.

The operator is scaled to nothing meanwhile: nobody but the generated CRDs refuses anything here. Each object stands in
a file of `wrong/`, whose first line names the field that the answer must name.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from installation.client import CallError, Cluster, path
from sandhold.api.crd import KINDS, crd

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMESPACE = "sandhold-refusals"
SYSTEM = "sandhold-system"
OPERATOR = "sandhold-operator"
WRONG = sorted((HERE / "wrong").glob("*.yaml"))
RIGHT = sorted((HERE / "right").glob("*.yaml"))
BY_NAME = {kind.__name__: kind for kind in KINDS}

pytestmark = [pytest.mark.e2e, pytest.mark.alone]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The cluster with our kinds, a namespace of our own, and no operator running."""
    with ExitStack() as after:
        found = Cluster()
        after.callback(found.close)
        made = [crd_name(kind) for kind in KINDS if not found.try_kubectl("get", "crd", crd_name(kind)).stdout]
        if made:
            after.callback(found.kubectl, "delete", "crd", *made)
            found.kubectl("create", "-f", str(ROOT / "crds"))
            found.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in made))
        operator = found.get("Deployment", SYSTEM, OPERATOR)
        if operator is not None:
            after.callback(found.scale, SYSTEM, OPERATOR, max(1, operator["spec"]["replicas"]))
            found.scale(SYSTEM, OPERATOR, 0)
        # Gone before the operator is back, so that it never sees what is made here.
        after.callback(found.kubectl, "delete", "namespace", NAMESPACE, "--timeout=60s", timeout=70)
        found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield found


def crd_name(kind: Any) -> str:
    return str(crd(kind)["metadata"]["name"])


def refusal(cluster: Cluster, file: Path) -> str:
    """What the person who applies the file reads."""
    done = cluster.try_kubectl("apply", "-n", NAMESPACE, "-f", str(file))
    assert done.returncode != 0, f"{file.name} was taken: {done.stdout}"
    return done.stderr.strip()


def named_field(file: Path) -> str:
    return file.read_text().splitlines()[0].removeprefix("# Field: ")


def test_the_kinds_that_are_installed_are_those_of_this_tree(cluster: Cluster) -> None:
    for kind in KINDS:
        installed = json.loads(cluster.kubectl("get", "crd", crd_name(kind), "-o", "json"))["spec"]["versions"][0]
        assert installed["schema"] == crd(kind)["spec"]["versions"][0]["schema"]


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_a_wrong_object_is_refused_with_its_field(cluster: Cluster, file: Path) -> None:
    assert re.search(rf"{re.escape(named_field(file))}(?!\w)", refusal(cluster, file))


def test_each_wrong_object_has_a_sentence_of_its_own(cluster: Cluster) -> None:
    sentences: dict[str, str] = {}
    for file in WRONG:
        said = refusal(cluster, file).partition("is invalid: ")[2] or refusal(cluster, file)
        print(f"{file.stem}: {said}")  # noqa: T201 - the sentences themselves are what there is to see
        sentences[re.sub(r'"[^"]*"', "", said).replace(str(file), "")] = file.stem
    assert len(WRONG) >= 10
    # Two mount paths fall to the same rule on purpose: one over /etc, one over the gate.
    assert len(sentences) >= len(WRONG) - 1


@pytest.mark.parametrize("file", RIGHT, ids=lambda file: file.stem)
def test_a_right_object_is_taken(cluster: Cluster, file: Path) -> None:
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(file))
    document = yaml.safe_load(file.read_text())
    stored = cluster.get(document["kind"], NAMESPACE, document["metadata"]["name"])
    assert stored is not None
    assert (
        BY_NAME[document["kind"]].model_validate(stored).spec == BY_NAME[document["kind"]].model_validate(document).spec
    )


def test_defaults_are_filled_in_and_seen_in_the_object(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(HERE / "right" / "sandbox-least.yaml"))
    stored = cluster.get("AgentSandbox", NAMESPACE, "least")
    assert stored is not None
    assert stored["spec"] == {
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "workspace": {"mountPath": "/workspace", "size": "1Gi"},
        "snapshot": {"onStop": True, "intervalSeconds": 300},
        "lifecycle": {"startTimeoutSeconds": 300, "stopTimeoutSeconds": 600},
    }


SESSION = {
    "apiVersion": "sandhold.dev/v1alpha1",
    "kind": "SandboxSession",
    "metadata": {"name": "fixed", "namespace": NAMESPACE},
    "spec": {"sandboxRef": {"name": "least"}, "env": [{"name": "A", "value": "1"}]},
}


@pytest.fixture
def session(cluster: Cluster) -> Iterator[str]:
    cluster.create(SESSION)
    yield "fixed"
    cluster.delete("SandboxSession", NAMESPACE, "fixed")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sandboxRef": {"name": "other"}}, "spec.sandboxRef"),
        ({"env": [{"name": "A", "value": "2"}]}, "spec.env"),
        ({"env": None}, "spec.env"),
        ({"env": []}, "spec.env"),
    ],
)
def test_what_is_fixed_in_a_session_stays(cluster: Cluster, session: str, change: Any, field: str) -> None:
    with pytest.raises(CallError, match=rf"{field}: .*{field} cannot be changed: make a new SandboxSession"):
        cluster.patch("SandboxSession", NAMESPACE, session, {"spec": change})


def test_an_environment_cannot_be_added_later_either(cluster: Cluster) -> None:
    bare = {**SESSION, "metadata": {"name": "bare", "namespace": NAMESPACE}, "spec": {"sandboxRef": {"name": "least"}}}
    cluster.create(bare)
    with pytest.raises(CallError, match=r"spec\.env cannot be changed"):
        cluster.patch("SandboxSession", NAMESPACE, "bare", {"spec": {"env": [{"name": "A"}]}})
    cluster.delete("SandboxSession", NAMESPACE, "bare")


@pytest.mark.parametrize(
    "change", [{"operatingMode": "Suspended"}, {"ttlSeconds": 60}, {"ttlSeconds": 61, "operatingMode": "Running"}]
)
def test_what_may_change_in_a_session_changes(cluster: Cluster, session: str, change: dict[str, Any]) -> None:
    stored = cluster.patch("SandboxSession", NAMESPACE, session, {"spec": change})
    assert {key: stored["spec"][key] for key in change} == change


def test_a_snapshot_stays_with_its_session(cluster: Cluster) -> None:
    cluster.create(
        {
            "apiVersion": "sandhold.dev/v1alpha1",
            "kind": "SandboxSnapshot",
            "metadata": {"name": "kept", "namespace": NAMESPACE},
            "spec": {"sessionRef": {"name": "a", "uid": "1"}},
        }
    )
    with pytest.raises(CallError, match=r"spec\.sessionRef cannot be changed"):
        cluster.patch("SandboxSnapshot", NAMESPACE, "kept", {"spec": {"sessionRef": {"uid": "2"}}})


def test_status_is_a_subresource(cluster: Cluster, session: str) -> None:
    stored = cluster.patch("SandboxSession", NAMESPACE, session, {"status": {"phase": "Ready"}})
    assert "status" not in stored
    with pytest.raises(CallError, match=r"status\.phase"):
        cluster.call(
            "PATCH",
            path("SandboxSession", NAMESPACE, session) + "/status",
            {"status": {"phase": "Happy"}},
            "application/merge-patch+json",
        )


def test_kubectl_explain_speaks_of_every_field(cluster: Cluster) -> None:
    said = cluster.kubectl("explain", "asb.spec.workspace")
    assert "mountPath" in said
    assert "Where the agent finds the workspace." in said
    for kind in KINDS:
        whole = cluster.kubectl("explain", f"{kind.facts.short_name}.spec", "--recursive")
        assert "<no description>" not in whole


def test_sessions_of_a_sandbox_can_be_selected(cluster: Cluster, session: str) -> None:
    found = cluster.kubectl("get", "sbs", "-n", NAMESPACE, "--field-selector=spec.sandboxRef.name=least", "-o", "name")
    assert session in found
    none = cluster.kubectl("get", "sandhold", "-n", NAMESPACE, "--field-selector=metadata.name=absent", "-o", "name")
    assert none == ""


# Values that are right, wrong, and on the edge, for the fields with a claim of their own.
TEXT = st.sampled_from(
    ["a..b", "", "a", "A", "a.b", "a-", "/", "/a", "/a/", "//", "/a/../b", "a/b", "..", "a\x00", "ü", "x y"]
)
PATH = st.lists(
    st.sampled_from(["", "a", "..", ".", "etc", "run", "var", "tmp", "home", "agent", "é", "\n"]), max_size=5
).map("/".join)
SIZE = st.sampled_from(
    [0, 1, -1, 10**18, "0", "1", "1Gi", "1gi", ".5", "5.", "1e3", "1e-9", "9E", "", "Gi", "500m", " 1"]
)
SOURCE = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "a.b", "A", "a..b", "", "a/b"])},
    optional={"key": st.sampled_from(["a", ".a", ".", "..", "..a", "a..", "a/b", "", "_A-1", "\u00e9"])},
)
ENTRY = st.fixed_dictionaries(
    {"path": st.one_of(PATH, TEXT)},
    optional={
        "mode": st.sampled_from([-1, 0, 0o777, 0o1000, 2**40]),
        "file": st.fixed_dictionaries({}, optional={"content": st.sampled_from(["", "x", "\x00"])}),
        "directory": st.just({}),
        "configMap": SOURCE,
        "secret": SOURCE,
        "ephemeral": st.booleans(),
    },
)
# Right ones by themselves, that may stand in each other's way.
CONTENT: list[dict[str, Any]] = [
    {"file": {}},
    {"directory": {}},
    {"configMap": {"name": "n"}},
    {"configMap": {"name": "n", "key": "k"}},
    {"secret": {"name": "n"}},
    {"secret": {"name": "n", "key": "k"}},
]
TREE = st.lists(
    st.builds(
        lambda place, content, more: {"path": place, **content, **more},
        st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]),
        st.sampled_from(CONTENT),
        st.sampled_from([{}, {"ephemeral": True}, {"ephemeral": False}]),
    ),
    min_size=2,
    max_size=4,
)
VARIABLE = st.fixed_dictionaries(
    {"name": st.sampled_from(["A", "a_1", "1", "", "SANDHOLD_X", "A-B", "B"]), "value": TEXT}
)
PORT = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "A", "-", "1", "a-1", "a--b", "8-a"]),
        "port": st.sampled_from([0, 1, 80, 65535, 65536]),
    },
    optional={"protocol": st.sampled_from(["TCP", "UDP", "SCTP"])},
)
TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "k", "e.x/k", "/k", "k "]),
        "operator": st.sampled_from(["Exists", "Equal", "In"]),
        "value": st.sampled_from(["", "v", "-v"]),
        "tolerationSeconds": st.sampled_from([-1, 0, 60]),
    },
)
RESOURCE = st.sampled_from(["cpu", "memory", "disk", "hugepages-2Mi", "nvidia.com/gpu", "a/b/c", ""])
AMOUNTS = st.dictionaries(RESOURCE, SIZE, max_size=2)
LABELS = st.dictionaries(st.sampled_from(["a", "e.x/A_b.c-d", "", "-a", "a/", "x/y/z"]), TEXT, max_size=2)
PART = st.one_of(
    st.fixed_dictionaries({"image": TEXT}),
    st.fixed_dictionaries({"tier": TEXT}),
    st.fixed_dictionaries({"workingDir": st.one_of(PATH, TEXT)}),
    st.fixed_dictionaries({"runAsUser": st.sampled_from([-1, 0, 1, 2**31 - 1, 2**31, 2**62])}),
    st.fixed_dictionaries({"env": st.lists(VARIABLE, max_size=3)}),
    st.fixed_dictionaries({"ports": st.lists(PORT, max_size=3)}),
    st.fixed_dictionaries({"pod": st.fixed_dictionaries({"tolerations": st.lists(TOLERATION, max_size=2)})}),
    st.fixed_dictionaries({"pod": st.fixed_dictionaries({"nodeSelector": LABELS})}),
    st.fixed_dictionaries({"args": st.lists(TEXT, max_size=1)}, optional={"command": st.lists(TEXT, max_size=1)}),
    st.fixed_dictionaries({"resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})}),
    st.fixed_dictionaries({"snapshot": st.fixed_dictionaries({}, optional={"maxBytes": SIZE, "store": TEXT})}),
    st.fixed_dictionaries({"workspace": st.fixed_dictionaries({"mountPath": st.one_of(PATH, TEXT)})}),
    st.fixed_dictionaries({"workspace": st.fixed_dictionaries({"size": SIZE})}),
    st.fixed_dictionaries({"workspace": st.fixed_dictionaries({"entries": st.lists(ENTRY, max_size=3)})}),
    st.fixed_dictionaries({"workspace": st.fixed_dictionaries({"entries": TREE})}),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=PART)
def test_the_api_server_and_the_models_agree_on_every_spec(cluster: Cluster, spec: dict[str, Any]) -> None:
    document = {
        "apiVersion": "sandhold.dev/v1alpha1",
        "kind": "AgentSandbox",
        "metadata": {"name": "agreed", "namespace": NAMESPACE},
        "spec": spec,
    }
    said_by_server, said_by_model = server_says(cluster, document), model_says(document)
    assert bool(said_by_server) == bool(said_by_model), f"server: {said_by_server!r}, model: {said_by_model!r}"


def server_says(cluster: Cluster, document: dict[str, Any]) -> str:
    try:
        cluster.call("POST", path("AgentSandbox", NAMESPACE) + "?dryRun=All", document)
    except CallError as error:
        if error.code != 422:
            raise
        return error.message
    return ""


def model_says(document: dict[str, Any]) -> str:
    try:
        BY_NAME["AgentSandbox"].model_validate(document)
    except ValidationError as error:
        return str(error)
    return ""
