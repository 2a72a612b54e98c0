"""The program as it starts: quick, sparing, and documented."""

import subprocess
import sys
import time
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from sandhold.cli.app import app
from sandhold.cli.failures import MEANINGS, ExitCode

SOURCE = Path(__file__).resolve().parents[3] / "operator"
HELP = "from sandhold.cli.app import app; app(['--help'], standalone_mode=False)"


def test_help_loads_no_client_and_no_model() -> None:
    script = f"{HELP}; import sys; print('LOADED', *sorted(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    loaded = {name.split(".")[0] for name in answer.stdout.rpartition("LOADED")[2].split()}
    assert "typer" in loaded
    assert not loaded & {"kubernetes_asyncio", "aiohttp", "pydantic_settings", "kopf", "yaml", "prometheus_client"}


def test_no_command_loads_kopf_or_a_store() -> None:
    modules = sorted(path.stem for path in (SOURCE / "sandhold" / "cli").glob("*.py") if path.stem != "__init__")
    script = f"import sys; [__import__(f'sandhold.cli.{{each}}') for each in {modules}]; print(*sorted(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    loaded = set(answer.stdout.split())
    assert "sandhold.cluster.sweep" in loaded
    assert not {name.split(".")[0] for name in loaded} & {"kopf", "boto3", "zstandard"}
    assert not any(name.startswith("sandhold.handlers") for name in loaded)


def test_help_costs_little_more_than_the_libraries_that_print_it() -> None:
    """The best of a few: the machine may be busy with something else."""
    own, libraries = _quickest(HELP), _quickest("import typer, rich.console")
    assert own < 3 * libraries, (own, libraries)


def _quickest(script: str) -> float:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, env={"PYTHONPATH": str(SOURCE)})
        took.append(time.perf_counter() - began)
    return min(took)


def test_every_command_and_option_says_what_it_is_for() -> None:
    found = 0
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for leaf in getattr(command, "commands", {name: command}).values():
            assert leaf.help, name
            for parameter in leaf.params:
                found += 1
                assert getattr(parameter, "help", "given by typer"), (name, parameter.name)
    assert found > 50


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_wrong_usage_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["nonsense"]).exit_code == ExitCode.USAGE
    assert runner.invoke(app, ["session", "get"]).exit_code == ExitCode.USAGE
    assert runner.invoke(app, ["session", "ls", "-o", "xml"]).exit_code == ExitCode.USAGE
    done = runner.invoke(app, ["--version"])
    assert (done.exit_code, done.stdout.split()[0]) == (0, "sandhold")
    assert "--timeout" in runner.invoke(app, ["session", "suspend", "--help"]).stdout


def test_a_target_that_names_nothing() -> None:
    done = CliRunner().invoke(app, ["plan", "pod/x"])
    assert done.exit_code == ExitCode.USAGE
    assert "write session/NAME or sandbox/NAME" in done.stderr
