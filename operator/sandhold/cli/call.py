"""What every command is given beside its own arguments: which cluster, which namespace, how long, which form of output.

Declared once, as typer options; `commands.py` adds them to each command.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

GLOBAL = "Options of every command"
MOST_SECONDS = 7 * 24 * 3600.0


class Output(StrEnum):
    """Forms of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Call:
    """The options of one call."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    timeout: float | None = None
    output: Output = Output.TABLE

    def seconds(self, default: float) -> float:
        """How long this may take: as the caller says, else what is usual for the command."""
        return default if self.timeout is None else self.timeout


def duration(text: str) -> float:
    """`90`, `90s`, `5m`, `1h30m` as seconds."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    total, number = 0.0, ""
    for mark in text.strip() + ("s" if text.strip()[-1:].isdigit() else ""):
        if mark.isascii() and (mark.isdigit() or mark == "."):
            number += mark
            continue
        try:
            total += float(number) * units[mark]
        except (KeyError, ValueError):
            number = "bad"
            break
        number = ""
    if number or not 0 < total <= MOST_SECONDS:
        raise typer.BadParameter(f"{text!r} is no duration: write 90s, 5m or 1h30m")
    return total


Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig; else what KUBECONFIG names, else ~/.kube/config.",
        rich_help_panel=GLOBAL,
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.", rich_help_panel=GLOBAL),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace; else that of the context.", rich_help_panel=GLOBAL
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=duration,
        help="The longest that the command may take: 90s, 5m, 1h30m. "
        "Without it 30s, and 15m for a command that waits for a session.",
        rich_help_panel=GLOBAL,
    ),
]
OutputForm = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        help="Form of the output: table, wide, json, yaml or name.",
        rich_help_panel=GLOBAL,
        case_sensitive=False,
    ),
]
