"""What the test run consists of, in two rows that run beside each other: what computes, and what needs the cluster."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from imaging.staging import REPOSITORY

RESULTS = REPOSITORY / "build" / "test"
GO_SOURCE = REPOSITORY / "operator" / "keeper"
STATICCHECK = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"


class Counts(StrEnum):
    """How a part says what it did."""

    CHECK = "check"
    """By its exit code: one test, passed or failed."""
    STEP = "step"
    """It prepares something. Nothing is counted unless it fails."""
    PYTEST = "pytest"
    GO = "go"


@dataclass(frozen=True)
class Part:
    """One program to run; `needs` names parts without whose success this one says nothing."""

    name: str
    argv: tuple[str, ...]
    counts: Counts = Counts.CHECK
    seconds: float = 300
    folder: Path = REPOSITORY
    needs: tuple[str, ...] = ()


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, *words)


def _pytest(name: str, *words: str, seconds: float, needs: tuple[str, ...] = ()) -> Part:
    report = f"--junit-xml={RESULTS / f'{name}.xml'}"
    return Part(name, _python("-m", "pytest", report, *words), Counts.PYTEST, seconds, needs=needs)


_EACH_CPU = ("--numprocesses=2",)
"""For what computes; the machine that this is for has two."""
_FILES_EACH_CPU = (*_EACH_CPU, "--dist=loadfile")
"""For what starts servers for all tests of a file."""
_FILES_BESIDE = ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder")
"""For what waits most of the time for a kubelet. In the order of the collection: files with `long` tests first."""


def _script(path: str, *words: str) -> tuple[str, ...]:
    return (str(REPOSITORY / path), *words)


LINT = (
    Part("ruff", _python("-m", "ruff", "check", "--quiet")),
    Part("ruff-format", _python("-m", "ruff", "format", "--check", "--quiet")),
    Part("mypy", _python("-m", "mypy")),
    Part("import-contracts", (str(Path(sys.executable).parent / "lint-imports"),)),
    # gofmt lists what differs and exits with 0 all the same.
    Part(
        "gofmt", ("sh", "-c", 'differing=$(gofmt -l .) && echo "$differing" && [ -z "$differing" ]'), folder=GO_SOURCE
    ),
    Part("go-vet", ("go", "vet", "./..."), seconds=600, folder=GO_SOURCE),
    Part("staticcheck", ("go", "run", STATICCHECK, "./..."), seconds=600, folder=GO_SOURCE),
)

VERIFY = (Part("verify", _python("hack/verify/all")),)

UNIT = (
    _pytest("unit", *_EACH_CPU, "tests/unit", "tests/golden", "tests/property", "tests/docs", seconds=600),
    _pytest("faults", *_EACH_CPU, "tests/faults", seconds=900),
)

GO = (Part("go-race", ("go", "test", "-race", "-json", "./..."), Counts.GO, seconds=900, folder=GO_SOURCE),)

_BUILT = "cluster-build"
_UP = "cluster-up"
_INSTALLED = "install"

PROGRAMS = (
    _pytest("wiring", *_FILES_EACH_CPU, "tests/wiring", seconds=600, needs=(_BUILT,)),
    _pytest("chart", "tests/chart", seconds=300, needs=(_BUILT,)),
    _pytest("programs", *_FILES_EACH_CPU, "tests/programs", seconds=1200, needs=(_BUILT,)),
)

CLUSTER = (
    Part(_BUILT, _script("hack/cluster", "build"), Counts.STEP, seconds=3600),
    _pytest("cluster", "tests/cluster", seconds=1200, needs=(_BUILT,)),
    Part(_UP, _script("hack/cluster", "up"), Counts.STEP, seconds=300, needs=(_BUILT,)),
    Part(_INSTALLED, _script("hack/install", "--for-tests"), Counts.STEP, seconds=1200, needs=(_UP,)),
    # First what waits most: by the time that the others take all of the machine, what computes has ended.
    _pytest("e2e-alone", "-m", "alone", "tests/e2e", seconds=1200, needs=(_INSTALLED,)),
    _pytest("e2e", *_FILES_BESIDE, "-m", "not alone", "tests/e2e", seconds=900, needs=(_INSTALLED,)),
)

DOWN = Part("cluster-down", _script("hack/cluster", "down"), Counts.STEP, seconds=120)


WITHOUT_CLUSTER = (*LINT, *VERIFY, *UNIT, *GO, *PROGRAMS)
"""What computes: it runs beside what waits for the cluster most of the time."""


def everything() -> tuple[Part, ...]:
    """All parts."""
    return (*WITHOUT_CLUSTER, *CLUSTER)
