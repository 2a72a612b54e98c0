"""The in-pod binary, built once for the sources that are there now and kept in the cache.

Tests drive the real binary; this module only makes sure that there is one. It does not run it.
"""

import fcntl
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "operator" / "keeper"
TEST_VERSION = "0.0.0+test"


def cache_directory() -> Path:
    """Where everything that is expensive to make is kept."""
    chosen = os.environ.get("SANDHOLD_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandhold"


def source_hash() -> str:
    """Digest of every file that the build reads."""
    digest = hashlib.sha256(TEST_VERSION.encode())
    for path in sorted([*SOURCES.rglob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]):
        if not path.name.endswith("_test.go"):
            digest.update(f"\0{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def keeper_binary() -> Path:
    """Path of the binary, built as the image builds it. Two test runs at once wait for each other."""
    folder = cache_directory() / "keeper" / source_hash()
    binary = folder / "sandhold-keeper"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            unfinished = folder / "unfinished"
            subprocess.run(_build_command(unfinished), cwd=SOURCES, env=_build_environment(), check=True)
            unfinished.rename(binary)
    return binary


def _build_command(output: Path) -> list[str]:
    flags = f"-s -w -X main.version={TEST_VERSION}"
    return ["go", "build", "-trimpath", f"-ldflags={flags}", "-o", str(output), "."]


def _build_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
