"""What `kubectl apply -k` gives is what Helm gives, object by object. Needs what `hack/cluster build` builds."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate import manifest_files
from sandhold.backends.model import Backends
from testbed import places

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
EXAMPLE = MANIFESTS / "overlays" / "example"

Objects = dict[tuple[str, str, str], dict[str, Any]]


def by_name(documents: list[dict[str, Any]]) -> Objects:
    found = {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d for d in documents}
    assert len(found) == len(documents), "two objects of one name"
    return found


def kustomized(folder: Path) -> Objects:
    program = places.cache() / "bin" / "kubectl"
    assert program.exists(), "kubectl is not built: run `hack/cluster build`"
    command = [str(program), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return by_name([document for document in yaml.safe_load_all(done.stdout) if document])


def templated(values: Path, *settings: str) -> Objects:
    text = manifest_files.rendered("--values", str(values), *settings)
    return by_name([manifest_files.without_helm(each) for each in yaml.safe_load_all(text) if each])


def said(document: dict[str, Any]) -> str:
    """As text, so that a difference reads well."""
    return yaml.safe_dump(document)


def compared(kustomize: Objects, helm: Objects) -> None:
    extra = {("Namespace", "", manifest_files.NAMESPACE)}
    assert kustomize.keys() - extra == helm.keys()
    assert extra <= kustomize.keys()
    for key, document in helm.items():
        assert said(kustomize[key]) == said(document), key


def test_the_base_is_generated_from_the_chart() -> None:
    wanted = manifest_files.files()
    present = {f"manifests/base/{path.name}": path.read_text() for path in (MANIFESTS / "base").iterdir()}
    assert present == wanted, "run make generate"


def test_the_base_is_what_helm_gives_with_the_same_values() -> None:
    compared(kustomized(MANIFESTS), templated(MANIFESTS / "values.yaml"))


def test_nothing_of_helm_is_left_in_the_base() -> None:
    for key, document in kustomized(MANIFESTS).items():
        assert "helm" not in said(document).lower(), key


def in_one_form(objects: Objects) -> Objects:
    """The backends file as its content, and lists in the order of their names: patches put theirs elsewhere."""
    for (kind, _, _), document in objects.items():
        if kind == "ConfigMap":
            document["data"] = {key: json.loads(text) for key, text in document["data"].items()}
        if kind == "Deployment":
            pod = document["spec"]["template"]["spec"]
            lists = [pod["volumes"], *(part for c in pod["containers"] for part in (c["env"], c["volumeMounts"]))]
            for each in lists:
                each.sort(key=lambda item: item["name"])
    return objects


def test_the_example_is_what_helm_gives_for_the_same_installation(tmp_path: Path) -> None:
    backends = json.loads((EXAMPLE / "sandbox-backends.json").read_text())
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "image": {"repository": "registry.example.org/sandhold", "tag": "0.1.0"},
                "keeperImage": {"repository": "registry.example.org/sandhold-keeper", "tag": "0.1.0"},
                "backends": backends,
                "stores": {"main": {"existingSecret": "sandhold-store-main"}},
            }
        )
    )
    compared(in_one_form(kustomized(EXAMPLE)), in_one_form(templated(values)))


def test_the_backends_file_of_the_example_is_one_that_the_operator_reads() -> None:
    backends = Backends.model_validate_json((EXAMPLE / "sandbox-backends.json").read_text())
    assert sorted(backends.stores) == ["main"]


def test_objects_are_small_enough_for_every_way_to_apply_them() -> None:
    """Client-side apply keeps the whole object in an annotation, and annotations have 256 KiB together."""
    for key, document in kustomized(MANIFESTS).items():
        assert len(json.dumps(document)) < 200_000, key


@pytest.mark.parametrize("fault", ["changed", "missing", "surplus"])
def test_the_check_notices(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generate.written.ROOT", tmp_path)
    assert manifest_files.main([]) == 0
    assert manifest_files.main(["--check"]) == 0
    base = tmp_path / "manifests" / "base"
    if fault == "changed":
        (base / "mover.yaml").write_text("changed")
    elif fault == "missing":
        (base / "mover.yaml").unlink()
    else:
        (base / "old.yaml").write_text("")
    assert manifest_files.main(["--check"]) == 1


def test_a_check_without_helm_says_that_it_compared_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SANDHOLD_CACHE", str(tmp_path))
    assert manifest_files.main(["--check"]) == 0
    assert "was not compared" in capsys.readouterr().err
    assert manifest_files.main([]) == 1
