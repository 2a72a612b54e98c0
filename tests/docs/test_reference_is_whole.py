"""What programs may rely on is documented, and the pages are those that would be generated now."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import Gauge

from generate import crd_files, metrics_page, names_page, reference_pages
from sandhold import metrics, names, reasons, settings
from sandhold.backends.model import Backends, Egress, Tier
from sandhold.mover import metrics as mover_metrics
from sandhold.snapshots.stores.settings import S3StoreConfig

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def text(page: str) -> str:
    return (REFERENCE / f"{page}.md").read_text()


@pytest.mark.parametrize("path", [*crd_files.files(), *reference_pages.files()])
def test_a_generated_file_is_what_would_be_generated_now(path: str) -> None:
    wanted = {**crd_files.files(), **reference_pages.files()}[path]
    assert (ROOT / path).read_text() == wanted, "run make generate"
    assert "enerated by" in wanted.splitlines()[0]


@pytest.mark.parametrize("code", list(reasons.RefusalCode))
def test_every_refusal_is_documented_with_an_action(code: reasons.RefusalCode) -> None:
    explained = reasons.REFUSALS[code]
    line = next(line for line in text("reasons").splitlines() if line.startswith(f"| `{code}` |"))
    assert explained.sentence in line
    assert explained.action in line


@pytest.mark.parametrize("table", [reasons.CONDITION_TYPES, reasons.REASONS, reasons.EVENT_REASONS])
def test_every_word_of_conditions_and_events_is_documented(table: dict[str, str]) -> None:
    for word, sentence in table.items():
        assert f"| `{word}` | {sentence} |" in text("reasons")
        assert re.fullmatch(r"[A-Z][A-Za-z]+", word)
        assert sentence.endswith(".")


@pytest.mark.parametrize("code", list(reasons.RefusalCode))
def test_sentences_and_actions_are_whole_and_steady(code: reasons.RefusalCode) -> None:
    for part in (reasons.REFUSALS[code].sentence, reasons.REFUSALS[code].action):
        assert part[0].isupper()
        assert part.endswith(".")
        assert not re.search(r"\d", part)
    assert reasons.camel_case(code).isalnum()
    assert reasons.refuse(code, "message").action == reasons.REFUSALS[code].action


def spoken() -> tuple[set[str], set[str]]:
    """The reasons of conditions and of Events that stand in the code as words."""
    conditions, events = set(), set()
    for path in (ROOT / "operator" / "sandhold").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                place = {"yes": 1, "no": 1, "unknown": 1, "Trouble": 0, "Event": 1}.get(name)
                if place is not None and len(call.args) > place and isinstance(call.args[place], ast.Constant):
                    (events if name == "Event" else conditions).add(call.args[place].value)
    return conditions, events


def test_every_reason_in_the_code_is_documented_and_every_documented_one_is_in_the_code() -> None:
    conditions, events = spoken()
    refusals = {reasons.camel_case(code) for code in reasons.RefusalCode}
    sources = "".join(
        path.read_text() for path in (ROOT / "operator" / "sandhold").rglob("*.py") if path.name != "reasons.py"
    )
    assert len(conditions) > 20
    assert conditions - refusals <= reasons.REASONS.keys()
    assert events - refusals <= reasons.EVENT_REASONS.keys()
    unspoken = [word for word in (*reasons.REASONS, *reasons.EVENT_REASONS) if f'"{word}"' not in sources]
    assert unspoken == []


@pytest.mark.parametrize("program", [settings.OperatorSettings, settings.MoverSettings])
def test_every_setting_is_documented(program: type) -> None:
    for name in program.model_fields:  # type: ignore[attr-defined]
        assert f"| `SANDHOLD_{name.upper()}` |" in text("settings")


def test_every_metric_is_documented_with_its_labels() -> None:
    declared = [*metrics_page.declared(), *metrics_page.declared(mover_metrics)]
    assert len(declared) > 40
    for metric in declared:
        line = next(each for each in text("metrics").splitlines() if f"| `{metrics_page.full_name(metric)}` |" in each)
        assert all(f"`{label}`" in line for label in metric._labelnames)


@pytest.mark.parametrize("fault", [("", ()), ("Words.", ("undescribed",))])
def test_a_metric_without_words_stops_the_generator(
    fault: tuple[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Gauge("sandhold_new", fault[0], fault[1], registry=None)
    monkeypatch.setattr(metrics, "NEW", made, raising=False)
    with pytest.raises(metrics_page.UndescribedMetricError, match="sandhold_new"):
        metrics_page.metrics_page()


def test_every_name_we_put_into_the_world_is_documented() -> None:
    prefixes = ("LABEL_", "ANNOTATION_", "FINALIZER_", "PORT_")
    values = [value for name, value in vars(names).items() if name.startswith(prefixes)]
    assert len(values) > 20
    for value in values:
        assert f"| `{value}` |" in text("labels")


def test_a_name_without_words_stops_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "LABEL_NEW", "sandhold.dev/new", raising=False)
    with pytest.raises(names_page.UndescribedNameError, match="LABEL_NEW"):
        names_page.names_page()


def test_every_key_of_the_backends_file_is_documented() -> None:
    prefixes = (
        ("", Backends),
        ("tiers.<name>.", Tier),
        ("tiers.<name>.egress.", Egress),
        ("stores.<name>.", S3StoreConfig),
    )
    for prefix, model in prefixes:
        for key in model.model_fields:
            assert f"| `{prefix}{key}` |" in text("backends")


def test_the_check_notices_a_changed_a_missing_and_a_surplus_file(tmp_path: Path) -> None:
    script = "\n".join(
        (
            "import sys",
            f"sys.path[:0] = [{str(ROOT / 'hack')!r}]",
            "from pathlib import Path",
            "from generate import written",
            f"written.ROOT = Path({str(tmp_path)!r})",
            "sys.exit(written.run(sys.argv[1:], lambda: {'d/a.yaml': 'a\\n', 'd/b.yaml': 'b\\n'}, {'d': '*.yaml'}))",
        )
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    assert run("--check").returncode == 1
    assert run().returncode == 0
    assert run("--check").returncode == 0
    (tmp_path / "d" / "a.yaml").write_text("changed\n")
    assert "-changed" in run("--check").stderr
    run()
    (tmp_path / "d" / "old.yaml").write_text("")
    assert "old.yaml: nothing generates this file" in run("--check").stderr
    run()
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["a.yaml", "b.yaml"]
