"""The reference pages as files."""

from collections.abc import Sequence

from generate.api_page import api_page
from generate.cli_page import cli_page
from generate.configuration_pages import backends_page, settings_page
from generate.metrics_page import metrics_page
from generate.names_page import names_page
from generate.reasons_page import reasons_page
from generate.written import run

FOLDER = "docs/reference"


def files() -> dict[str, str]:
    """Every page that is generated, by path."""
    return {
        f"{FOLDER}/api.md": api_page(),
        f"{FOLDER}/backends.md": backends_page(),
        f"{FOLDER}/cli.md": cli_page(),
        f"{FOLDER}/labels.md": names_page(),
        f"{FOLDER}/metrics.md": metrics_page(),
        f"{FOLDER}/reasons.md": reasons_page(),
        f"{FOLDER}/settings.md": settings_page(),
    }


def main(arguments: Sequence[str]) -> int:
    """Write them, or compare."""
    return run(arguments, files, {})
