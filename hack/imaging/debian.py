"""The base image for machines without a registry: a small Debian, made from the package mirror that the host uses.

Which mirror, which proxy and which keys are the host's business: its own apt settings are handed on for the time of the
installation and nothing of them stays in the image. Security updates come with a new base: remove the cached one.
"""

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

from testbed.commands import run
from testbed.failure import TestbedError

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "coreutils", "python3", "python3-venv")
_RECIPE = "1"
_LONGEST_SECONDS = 900
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
# Settings of how to reach a mirror; everything else of the host's apt is of no concern inside.
_HANDED_ON = re.compile(r"^Acquire::(http|https|Check-|Retries|Force|AllowInsecure|AllowWeak)", re.IGNORECASE)
_TRACES = ("etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "etc/apt/sources.list*")


def key() -> str:
    """What the base is kept under."""
    return hashlib.sha256("\0".join((_RECIPE, SUITE, *PACKAGES, *_LEFT_OUT)).encode()).hexdigest()[:12]


def filesystem(cache: Path) -> Path:
    """The base as a tar, made once; a kill leaves a file with another name, which the next run writes over."""
    final = cache / "images" / f"debian-{key()}.tar"
    if final.exists():
        return final
    print(f"  base: installing Debian {SUITE} with {', '.join(PACKAGES)}", flush=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f".unfinished-{final.name}")
    # mmdebstrap keeps its root under TMPDIR and takes it away itself, but not when it is killed.
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".unfinished-debian-") as work:
        settings = Path(work) / "apt.conf"
        settings.write_text(_host_settings())
        sources = Path(work) / "debian.sources"
        sources.write_text(_host_sources())
        mirrors = [str(sources)] if sources.stat().st_size else []
        options = ["--mode=root", "--variant=essential", "--quiet", "--format=tar", f"--aptopt={settings}"]
        options += [f"--include={','.join(PACKAGES)}", *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT)]
        options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
        options += [f'--customize-hook=cd "$1" && rm -rf {" ".join(_TRACES)}']
        program = ["env", f"TMPDIR={work}", "nice", "mmdebstrap", *options, SUITE, str(partial), *mirrors]
        run(program, timeout=_LONGEST_SECONDS)
    partial.rename(final)
    return final


def _host_settings() -> str:
    """How the host's apt reaches its mirrors, as apt prints it."""
    try:
        said = subprocess.run(
            ["apt-config", "dump"], capture_output=True, text=True, timeout=30, check=True, errors="replace"
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise TestbedError(f"the base image needs apt on this machine: {error}") from error
    return "\n".join(line for line in said.splitlines() if _HANDED_ON.match(line)) + "\n"


def _host_sources() -> str:
    """The host's own Debian mirrors, for our suite; empty on other systems, where mmdebstrap knows a public one."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE))
    codename = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or not codename:
        return ""
    files = sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))
    stanzas = [stanza for path in files for stanza in re.split(r"\n\s*\n", _uncommented(path))]
    lines = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.list"))]
    stanzas += [_as_stanza(line) for path in lines if path.exists() for line in _uncommented(path).splitlines()]
    # A foreign repository may use the suite's name too; the component `main` is Debian's.
    wanted = [s for s in stanzas if re.search(rf"^Suites:.*\b{codename}\b", s, re.MULTILINE | re.IGNORECASE)]
    wanted = [s for s in wanted if re.search(r"^Components:.*\bmain\b", s, re.MULTILINE | re.IGNORECASE)]
    return "\n\n".join(re.sub(rf"\b{codename}\b", SUITE, stanza.strip()) for stanza in wanted) + ("\n" * bool(wanted))


def _uncommented(path: Path) -> str:
    return "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))


def _as_stanza(line: str) -> str:
    """A one-line entry in the longer form; empty for what is none, `deb-src` included."""
    found = re.match(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)$", line.strip())
    if not found:
        return ""
    options, uri, suite, components = found.groups()
    signed = re.search(r"signed-by=(\S+)", options or "", re.IGNORECASE)
    extra = f"\nSigned-By: {signed.group(1)}" if signed else ""
    return f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {components}{extra}"
