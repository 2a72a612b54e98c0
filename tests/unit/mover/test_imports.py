"""What the mover's program loads, in a fresh interpreter: nothing of the operator's."""

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "operator"


def test_the_program_loads_nothing_of_the_operators() -> None:
    code = "import sandhold.mover.program, sys; print(*sorted(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    loaded = set(answer.stdout.split())
    assert "sandhold.mover.keeper_door" in loaded
    roots = {name.split(".")[0] for name in loaded}
    assert not roots & {"kopf", "kubernetes_asyncio", "aiohttp"}
    parts = {name.split(".")[1] for name in loaded if name.startswith("sandhold.")}
    assert not parts & {"cluster", "desired", "handlers"}
