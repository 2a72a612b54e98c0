"""Which cluster `hack/cluster` speaks of: kind where an engine answers and kind is installed, else the native one.

A cluster that is there stays the one that is meant, whatever answers by now. `SANDHOLD_CLUSTER=native|kind` is a
person's word. Nothing is started here.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from testbed import network, places
from testbed.failure import TestbedError

ENGINES = ("docker", "podman")
ASK_SECONDS = 10
VARIABLE = "SANDHOLD_CLUSTER"


class Provider(StrEnum):
    """A kind of cluster."""

    NATIVE = "native"
    KIND = "kind"


@dataclass(frozen=True)
class Choice:
    """What was chosen, with which engine, and why: for the one who reads the output."""

    provider: Provider
    why: str
    engine: str = ""


def chosen() -> Choice:
    """The cluster that is meant."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", *Provider):
        raise TestbedError(f"{VARIABLE} is {wanted!r}: it may be native, kind, or not set")
    if wanted == Provider.NATIVE:
        return Choice(Provider.NATIVE, f"{VARIABLE}=native")
    if wanted == Provider.KIND:
        return _kind(f"{VARIABLE}=kind", is_wanted=True)
    if marker().exists():
        return _kind("a kind cluster is there", is_wanted=True)
    if network.exists():
        return Choice(Provider.NATIVE, "the native cluster is there")
    return _kind("a container engine answers, and kind is installed", is_wanted=False)


def marker() -> Path:
    """Says that the cluster of this machine is one of kind."""
    return places.state() / "kind"


def _kind(why: str, *, is_wanted: bool) -> Choice:
    engine = answering_engine()
    if engine and shutil.which("kind"):
        return Choice(Provider.KIND, why, engine)
    missing = "kind is not installed" if engine else "no container engine answers"
    if is_wanted:
        raise TestbedError(f"{why}, but {missing}")
    return Choice(Provider.NATIVE, missing)


def answering_engine() -> str | None:
    """The first engine whose daemon answers within a bound; a client alone runs nothing."""
    for engine in ENGINES:
        if not shutil.which(engine):
            continue
        try:
            asked = subprocess.run(
                [engine, "info"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False
            )
        except (subprocess.TimeoutExpired, OSError):
            continue
        # Docker's client of some versions ends well and says in its words that nobody answered.
        if asked.returncode == 0 and b"Cannot connect" not in asked.stdout + asked.stderr:
            return engine
    return None
