"""Builds the cluster's parts from source, once per version, and never believes half a build.

Each part is a folder `go/<name>` with a `build.sh` that writes into `$OUT`. The key of a build is a digest of that
folder and the version, and a finished build is a directory under that key which appeared by a single rename: whatever
a kill leaves behind has another name and is swept by the next build. The Go toolchain is deliberately not part of the
key, so that a filled cache serves a machine without Go; `go.mod` and `go.sum` decide what is built.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from testbed import locks
from testbed.failure import TestbedError

PARALLEL = 2
SAY_EVERY_SECONDS = 30
LONGEST_BUILD_SECONDS = 45 * 60
# In the keys, so that a change to how build.sh is run makes new builds.
RECIPE = "2"


@dataclass(frozen=True)
class Component:
    """One part: where its source is, and which version that source is said to be."""

    name: str
    version: str
    source: Path

    def key(self) -> str:
        """What the build is kept under: another source or version is another directory."""
        digest = hashlib.sha256(f"{RECIPE}\0{self.version}\0".encode())
        for path in sorted(p for p in self.source.rglob("*") if p.is_file()):
            digest.update(f"{path.relative_to(self.source)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def directory(self, cache: Path) -> Path:
        """Where the finished build is, or will be."""
        return cache / "components" / self.key()


def build_all(components: Sequence[Component], cache: Path) -> dict[str, Path]:
    """Build what is missing, at most two at a time, and return each part's directory."""
    (cache / "components").mkdir(parents=True, exist_ok=True)
    missing = [c for c in components if not c.directory(cache).is_dir()]
    if missing:
        # Two checkouts may share one cache: the second one waits, and then finds all done.
        with locks.held(cache / "build.lock", "another build on this cache", seconds=LONGEST_BUILD_SECONDS):
            missing = [c for c in components if not c.directory(cache).is_dir()]
            _sweep_unfinished(cache)
            _build_missing(missing, cache)
    _say(f"built {len(missing)}, reused {len(components) - len(missing)}")
    return {c.name: c.directory(cache) for c in components}


def _sweep_unfinished(cache: Path) -> None:
    """Remove what killed builds left; holding the lock means that no live build owns any of it."""
    for left in (cache / "components").glob(".unfinished-*"):
        shutil.rmtree(left)


def _build_missing(missing: Sequence[Component], cache: Path) -> None:
    started = {c.name: 0.0 for c in missing}
    with ThreadPoolExecutor(PARALLEL) as pool:
        running: dict[Future[float], str] = {pool.submit(_build, c, cache, started): c.name for c in missing}
        while running:
            done, _ = wait(running, timeout=SAY_EVERY_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                try:
                    _say(f"  {name}: built in {future.result():.0f} s")
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            if not done:
                now = time.monotonic()
                busy = [f"{name} {now - started[name]:.0f} s" for name in running.values() if started[name]]
                _say(f"  building: {', '.join(busy)}; {len(running) - len(busy)} waiting")


def _build(component: Component, cache: Path, started: dict[str, float]) -> float:
    """Build one part in a directory of its own, then give it its name; returns the seconds it took."""
    began = started[component.name] = time.monotonic()
    _say(f"  {component.name} {component.version}: building")
    work = Path(tempfile.mkdtemp(prefix=f".unfinished-{component.name}-", dir=cache / "components"))
    work.chmod(0o755)
    source, out = work / "source", work / "out"
    shutil.copytree(component.source, source)
    # The key is that of the copy: an edit of the source meanwhile must not relabel what is being built.
    final = replace(component, source=source).directory(cache)
    out.mkdir()
    log = cache / "logs" / f"build-{component.name}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as said:
        try:
            code = subprocess.run(
                ["nice", "sh", "-eu", "build.sh"],
                cwd=source,
                env=_environment(component, out),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_BUILD_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise TestbedError(f"{component.name}: not built within {LONGEST_BUILD_SECONDS // 60} min") from error
    if code:
        raise TestbedError(f"{component.name}: build failed, see {log}\n{_last_lines(log)}")
    out.rename(final)
    shutil.rmtree(work)
    return time.monotonic() - began


def _environment(component: Component, out: Path) -> dict[str, str]:
    """Pinned modules, no C compiler, no paths of this machine in the binaries; Go's own caches stay the user's.

    Debug information is left out when compiling, not only when linking: a tenth less to compute, a fifth less to keep.
    """
    return os.environ | {
        "OUT": str(out),
        "VERSION": component.version,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -buildvcs=false -gcflags=all=-dwarf=false",
        "GOWORK": "off",
        "LDFLAGS": "-s -w",
    }


def _say(line: str) -> None:
    """Print in one write: the builders are threads, and `print` writes a line's end by itself."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
