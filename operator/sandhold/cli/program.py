"""The program `sandhold`, and the same one as a kubectl plugin: `kubectl sandhold`."""

import sys
from pathlib import Path


def main() -> None:
    """Run one command and exit with its code."""
    from sandhold.cli.app import app  # noqa: PLC0415 - an interrupt during the imports is an interrupt, too

    is_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl sandhold" if is_plugin else "sandhold")
