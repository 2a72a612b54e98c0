"""The command line of `hack/test`: which parts, the order of things, and leaving the machine as it was found."""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from suite import parts, prerequisites
from suite.running import Runner
from testbed import network
from testbed.failure import TestbedError

_DOWN_SECONDS = 120


class _EndRequestedError(Exception):
    """Somebody wants this run to end now."""


def main(arguments: Sequence[str]) -> int:
    """Run the chosen parts; 0 only when nothing failed. The last line holds the totals and nothing else."""
    parser = argparse.ArgumentParser(prog="hack/test", description="Run the checks and tests of this project.")
    chosen = {"all": parts.everything(), "lint": parts.LINT, "verify": parts.VERIFY, "unit": parts.UNIT}
    parser.add_argument("what", choices=chosen)
    what = parser.parse_args(arguments).what
    runner = Runner()
    if what == "all":
        try:
            prerequisites.ensure()
        except TestbedError as error:
            print(f"hack/test: {error}", file=sys.stderr)
            return 1
    was_up = network.exists()
    began = time.monotonic()
    _listen()
    ended_early = False
    try:
        for part in chosen[what]:
            runner.run(part)
    except _EndRequestedError:
        ended_early = True
        print("ended on request", flush=True)
    finally:
        if what == "all" and not was_up:
            _take_down()
    print(f"{time.monotonic() - began:.0f} s in all; logs in {parts.RESULTS.relative_to(parts.REPOSITORY)}")
    print(runner.totals, flush=True)
    return 1 if runner.totals.failed or ended_early else 0


def _listen() -> None:
    """On SIGTERM and SIGINT: end the part that runs, then clean up as usual."""

    def end(_: int, __: FrameType | None) -> None:
        raise _EndRequestedError

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _take_down() -> None:
    """The cluster was down before: it is again, however the run ended."""
    if not network.exists():
        return
    program = [str(parts.REPOSITORY / "hack" / "cluster"), "down"]
    done = subprocess.run(program, timeout=_DOWN_SECONDS, capture_output=True, text=True, check=False)
    print(f"{'cluster-down':18} {'ok' if not done.returncode else 'FAILED: ' + done.stderr.strip()}", flush=True)
