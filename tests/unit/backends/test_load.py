import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandhold.backends.load import LARGEST_FILE, BackendsInForce, find_backends, load_backends
from sandhold.backends.model import default_backends
from sandhold.backends.problems import InvalidBackendsError, Problem

GOOD: dict[str, Any] = {
    "installation_id": "demo",
    "default_tier": "gvisor",
    "tiers": {
        "gvisor": {"runtime_class": "gvisor", "egress": {"cni": {}}, "default_image": "registry.example/agents/a:1"},
        "runc": {"runtime_class": "runc", "egress": {"cni": {}}},
    },
    "image_allowlist": ["registry.example/agents/*"],
    "resource_defaults": {"cpu": "2", "memory": "4Gi"},
    "sandbox_ttl_seconds": 3600,
    "stores": {"main": {"type": "s3", "endpoint": "http://127.0.0.1:9", "bucket": "workspaces"}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good document with one value changed, or removed when it is None."""
    document = json.loads(json.dumps(GOOD))
    *parents, last = path.split(".")
    place = document
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


def problems_of(tmp_path: Path, document: Any) -> tuple[Problem, ...]:
    path = tmp_path / "sandbox-backends.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    with pytest.raises(InvalidBackendsError) as caught:
        load_backends(path)
    assert str(path) in str(caught.value)
    return caught.value.problems


@pytest.mark.parametrize(("name", "write"), [("b.yaml", yaml.safe_dump), ("b.json", json.dumps)])
def test_a_good_file_is_read_in_both_forms(tmp_path: Path, name: str, write: Any) -> None:
    (tmp_path / name).write_text(write(GOOD))
    backends = load_backends(tmp_path / name)
    assert backends.installation_id == "demo"
    assert list(backends.tiers) == ["gvisor", "runc"]
    assert backends.tiers["gvisor"].egress.mechanism == "cni"
    assert backends.stores["main"].bucket == "workspaces"


@pytest.mark.parametrize(
    ("path", "value", "where", "words"),
    [
        ("installation_id", None, "installation_id", "add it"),
        ("installation_id", "Not A Label", "installation_id", "pattern"),
        ("default_tier", "kata", "the file", "default_tier kata is none of the tiers (gvisor, runc)"),
        ("tiers", {}, "tiers", "at least 1 item"),
        ("tiers.runc.egress", {}, "tiers.runc.egress", "no egress mechanism is given; use cni: {}"),
        ("tiers.runc.egress", {"cni": {}, "gateway": {}}, "tiers.runc.egress", "gateway is not available yet"),
        ("tiers.runc.egress", {"sidecar": {}}, "tiers.runc.egress", "sidecar is not available yet"),
        ("tiers.runc.egress", {"cni": {"x": 1}}, "tiers.runc.egress.cni.x", "unknown key"),
        (
            "tiers.runc.egress_allow_hosts",
            ["a"],
            "tiers.runc.egress_allow_hosts",
            "runtime_class, egress, default_image",
        ),
        ("tiers.runc.runtime_class", None, "tiers.runc.runtime_class", "add it"),
        ("tiers.runc.default_image", "evil.example/x", "the file", "tiers.runc.default_image evil.example/x is not on"),
        ("image_allowlist", ["registry.example/agents*"], "image_allowlist.0", "pattern"),
        ("resource_defaults", {"cpu": "lots"}, "resource_defaults", "cpu is not a quantity"),
        ("sandbox_ttl_seconds", 5, "sandbox_ttl_seconds", "greater than or equal to 60"),
        ("sandbox_ttl_seconds", "soon", "sandbox_ttl_seconds", "write a whole number"),
        ("tenants", {}, "tenants", "unknown key; keys known here are installation_id, default_tier"),
        ("guard", {}, "guard", "unknown key"),
        ("stores.main.secret_access_key", "hunter2", "stores.main.secret_access_key", "unknown key; keys known here"),
        ("stores.main.bucket", None, "stores.main.bucket", "add it"),
        ("stores", {"Main Store": GOOD["stores"]["main"]}, "stores.Main Store", "pattern"),
        ("stores.other", GOOD["stores"]["main"], "the file", "default_store is missing, and there are several stores"),
        ("default_store", "elsewhere", "the file", "default_store elsewhere is none of the stores"),
    ],
)
def test_a_fault_is_told_with_its_key_and_a_remedy(
    tmp_path: Path, path: str, value: Any, where: str, words: str
) -> None:
    problems = problems_of(tmp_path, changed(path, value))
    assert [problem.path for problem in problems] == [where]
    assert words in str(problems[0])
    assert problems[0].remedy


def test_all_faults_are_told_at_once_and_values_never(tmp_path: Path) -> None:
    document = changed("stores.main.secret_access_key", "hunter2") | {"rollout": {"x": "hunter3"}, "default_tier": 7}
    problems = problems_of(tmp_path, document)
    assert {problem.path for problem in problems} == {"stores.main.secret_access_key", "rollout", "default_tier"}
    assert "hunter" not in "".join(map(str, problems))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is not YAML"),
        ("\tx", "is not YAML"),
        ("- a\n- b\n", "holds no mapping"),
        ("", "holds no mapping"),
        ("a: 1\na: 2\n", "a: stands twice"),
        ("[" * 20000, "is nested too deeply"),
        ("? [a]\n: 1\n? [a]\n: 2\n", "is not YAML"),
        ("x: !!python/object/apply:os.system [echo]\n", "is not YAML"),
    ],
)
def test_what_is_no_configuration_at_all_is_told(tmp_path: Path, text: str, words: str) -> None:
    assert words in str(problems_of(tmp_path, text)[0])


def test_anchors_and_merges_are_yaml_too(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(
        "installation_id: demo\n"
        "default_tier: a\n"
        "tiers:\n"
        "  a: &a {runtime_class: runc, egress: {cni: {}}}\n"
        "  b: {<<: *a, runtime_class: gvisor}\n"
    )
    assert load_backends(path).tiers["b"].runtime_class == "gvisor"


def test_a_repeated_key_is_refused_in_json_too(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"tiers": {}, "tiers": {}}')
    with pytest.raises(InvalidBackendsError, match="tiers: stands twice"):
        load_backends(tmp_path / "b.json")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(InvalidBackendsError, match="line 1, column 2: is not JSON"):
        load_backends(tmp_path / "b.json")


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(InvalidBackendsError, match="larger than 1 MiB"):
        load_backends(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidBackendsError, match="not UTF-8"):
        load_backends(path)


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    named = tmp_path / "absent.json"
    assert find_backends(named, []) == named
    with pytest.raises(InvalidBackendsError, match="cannot be read"):
        load_backends(named)


def test_without_a_name_the_first_place_that_has_one_is_read(tmp_path: Path) -> None:
    places = [tmp_path / "a" / "b.json", tmp_path / "c.yaml", tmp_path / "d.yaml"]
    assert find_backends(None, places) is None
    places[2].write_text("")
    places[1].write_text("")
    assert find_backends(None, places) == places[1]


def test_without_a_file_there_is_one_tier_and_no_store() -> None:
    backends = BackendsInForce(None, "of-the-namespace")
    assert backends.current() == default_backends("of-the-namespace")
    assert not backends.current().stores
    assert backends.current().tiers["runc"].runtime_class == "runc"
    assert not backends.reload().changed


def test_a_bad_new_file_keeps_the_old_one_in_force_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    backends = BackendsInForce(path, "unused")
    before = backends.current()

    path.write_text(yaml.safe_dump(changed("default_tier", "kata")))
    outcome = backends.reload()
    assert not outcome.changed
    assert outcome.problems == backends.problems != ()
    assert backends.current() is before

    path.unlink()
    assert "cannot be read" in str(backends.reload().problems[0])
    assert backends.current() is before

    path.write_text(yaml.safe_dump(changed("sandbox_ttl_seconds", 60)))
    outcome = backends.reload()
    assert outcome.changed
    assert backends.problems == ()
    assert backends.current().sandbox_ttl_seconds == 60


def test_the_installation_id_does_not_change_under_a_running_operator(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    backends = BackendsInForce(path, "unused")
    path.write_text(yaml.safe_dump(changed("installation_id", "other")))
    [problem] = backends.reload().problems
    assert problem.path == "installation_id"
    assert problem.remedy.startswith("put demo back; only a restart takes another id")
    assert backends.current().installation_id == "demo"


def test_a_bad_first_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text("a: 1")
    with pytest.raises(InvalidBackendsError):
        BackendsInForce(path, "unused")
