"""The build context of each image: a folder with everything that goes in, whose digest names the result.

The digest is taken of the staged copy and not of the tree, so that an edit during a build cannot relabel it. What the
inputs merely determine (wheels from the lock file, the binary from its source) is added later and is not part of it.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.commands import run

REPOSITORY = Path(__file__).resolve().parents[2]
# In every key, so that a change to how contexts are finished makes new images.
RECIPE = "1"
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "*_test.go")
LONGEST_FETCH_SECONDS = 900
# The Python of both bases: Debian 12's, and the one in the Dockerfile's default.
IMAGE_PYTHON = "3.11"
# What pip may take for a Debian of today; the musl and the older glibc lines are left out on purpose.
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")


@dataclass(frozen=True)
class Image:
    """One target of the Dockerfile and how its context is made."""

    name: str
    has_base: bool
    stage: Callable[[Path], None]
    finish: Callable[[Path, Path], None]


def digest(image: Image, context: Path, base: str) -> str:
    """What a build is kept under: the Dockerfile, the staged inputs and, where it has one, its base."""
    found = hashlib.sha256(f"{RECIPE}\0{image.name}\0{base if image.has_base else ''}\0".encode())
    for path in (REPOSITORY / "Dockerfile", *sorted(p for p in context.rglob("*") if p.is_file())):
        name = path.relative_to(context) if path.is_relative_to(context) else path.name
        found.update(f"{name}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _stage_sandhold(context: Path) -> None:
    source = context / "source"
    shutil.copytree(REPOSITORY / "operator" / "sandhold", source / "operator" / "sandhold", ignore=_IGNORED)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(REPOSITORY / name, source / name)
    shutil.copy2(REPOSITORY / "requirements" / "runtime.lock", context / "runtime.lock")


def _finish_sandhold(context: Path, cache: Path) -> None:
    """Add the wheels of the lock file and the wheel of the package; only the wheels go into the image."""
    shutil.copytree(_wheels(context / "runtime.lock", cache), context / "wheels", copy_function=os.link)
    python = REPOSITORY / ".venv" / "bin" / "python"
    build = [str(python), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(context)]
    run(["env", "-C", str(context / "source"), "SOURCE_DATE_EPOCH=0", *build], timeout=120)
    shutil.rmtree(context / "source")


def _wheels(lock: Path, cache: Path) -> Path:
    """The wheels that the lock file names, fetched once; which ones are right is decided by its hashes."""
    key = hashlib.sha256(f"{IMAGE_PYTHON}\0".encode() + lock.read_bytes()).hexdigest()[:12]
    final = cache / "wheels" / key
    if final.is_dir():
        return final
    print("  sandhold: fetching wheels", flush=True)
    partial = final.with_name(f".unfinished-{key}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    pip = [str(REPOSITORY / ".venv" / "bin" / "python"), "-m", "pip", "download", "--quiet"]
    wanted = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement", str(lock)]
    platforms = [f"--platform={name}_{os.uname().machine}" for name in PLATFORMS]
    target = ["--implementation=cp", f"--python-version={IMAGE_PYTHON}", *platforms, "--dest", str(partial)]
    run([*pip, *wanted, *target], timeout=LONGEST_FETCH_SECONDS)
    partial.rename(final)
    return final


def _stage_keeper(context: Path) -> None:
    shutil.copytree(REPOSITORY / "operator" / "keeper", context / "source", ignore=_IGNORED)


def _finish_keeper(context: Path, cache: Path) -> None:
    """Build the binary; its modules come from Go's own cache and are what `go.sum` says."""
    del cache
    settings = ["CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off"]
    build = ["go", "build", "-C", str(context / "source"), "-ldflags", "-s -w", "-o", str(context / "sandhold-keeper")]
    run(["env", *settings, *build, "."], timeout=LONGEST_FETCH_SECONDS)
    shutil.rmtree(context / "source")


def _stage_nothing(context: Path) -> None:
    del context


def _finish_nothing(context: Path, cache: Path) -> None:
    del context, cache


IMAGES = (
    Image("sandhold", has_base=True, stage=_stage_sandhold, finish=_finish_sandhold),
    Image("sandhold-keeper", has_base=False, stage=_stage_keeper, finish=_finish_keeper),
    Image("sample-agent", has_base=True, stage=_stage_nothing, finish=_finish_nothing),
)
