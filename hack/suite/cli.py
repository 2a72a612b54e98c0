"""The command line of `hack/test`: which parts, the order of things, and leaving the machine as it was found."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from types import FrameType

from imaging.staging import REPOSITORY
from installation.preparing import cluster_to_oneself
from suite import matrix, parts, prerequisites
from suite.parts import Part
from suite.running import Runner
from testbed import network
from testbed.failure import TestbedError

_WITH_FAULTS = ("all", "unit")
"""What records rows of the matrix of faults and outcomes."""


class _EndRequestedError(Exception):
    """Somebody wants this run to end now."""


def main(arguments: Sequence[str]) -> int:
    """Run the chosen parts; 0 only when nothing failed. The last line holds the totals and nothing else."""
    parser = argparse.ArgumentParser(prog="hack/test", description="Run the checks and tests of this project.")
    chosen = {"all": parts.CLUSTER, "lint": parts.LINT, "verify": parts.VERIFY, "unit": parts.UNIT}
    parser.add_argument("what", choices=chosen)
    what = parser.parse_args(arguments).what
    runner = Runner()
    began = time.monotonic()
    matrix.begin(parts.RESULTS)
    try:
        if what == "all":
            prerequisites.ensure()
        with cluster_to_oneself() if what == "all" else nullcontext():
            beside = parts.WITHOUT_CLUSTER if what == "all" else ()
            ended_early = _run(runner, chosen[what], beside, touches_cluster=what == "all")
    except TestbedError as error:
        print(f"hack/test: {error}", file=sys.stderr)
        return 1
    if what in _WITH_FAULTS and not ended_early:
        runner.totals += matrix.collect(parts.RESULTS)
    print(f"{time.monotonic() - began:.0f} s in all; logs in {parts.RESULTS.relative_to(REPOSITORY)}")
    print(runner.totals, flush=True)
    return 1 if runner.totals.failed or ended_early else 0


def _run(runner: Runner, chosen: Sequence[Part], beside: Sequence[Part], *, touches_cluster: bool) -> bool:
    """Run two rows of parts, and leave the cluster as it was found; says whether somebody wanted this to end early."""
    was_up = network.exists()
    _on_request(_end)
    try:
        _two_rows(runner, chosen, beside)
    except _EndRequestedError:
        print("ended on request", flush=True)
        return True
    finally:
        # Who asks twice asks for a machine left in disorder; the bounds of what follows are short.
        _on_request(signal.SIG_IGN)
        if touches_cluster and not was_up and network.exists():
            runner.clean_up(parts.DOWN)
    return False


def _two_rows(runner: Runner, chosen: Sequence[Part], beside: Sequence[Part]) -> None:
    """Run both to their ends; when one of them breaks off, the other is ended, too."""
    needed = frozenset(part.name for part in chosen)
    with ThreadPoolExecutor(1) as pool:
        # Nice: what waits for a kubelet is not to wait for a compiler, too.
        polite = [replace(part, argv=("nice", *part.argv)) for part in beside]
        other = pool.submit(lambda: [runner.run(part, beside=needed) for part in polite])
        try:
            for part in chosen:
                runner.run(part)
            other.result()
        except BaseException:
            runner.end()
            raise


def _on_request(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, handler)


def _end(_: int, __: FrameType | None) -> None:
    raise _EndRequestedError
