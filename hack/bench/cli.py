"""The command line of `make bench`: warm up, measure interleaved, write build/bench.json, say what was reached."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench import archives, crowd, figures, quietness, starts
from bench.inside import Operator, keeper_memory
from imaging import builds, loading
from imaging.staging import REPOSITORY
from installation.client import Cluster, Object
from installation.deploying import install
from installation.preparing import bring_up, cluster_to_oneself
from testbed import versions
from testbed.failure import TestbedError

RESULT = REPOSITORY / "build" / "bench.json"
SCHEMA = 2
TARGETS = {"runc": 1.8, "gvisor": 2.0}
KEEPER_BYTES = 10 * 1024 * 1024
PARTS = ("starts", "writes", "archives", "crowd")
SEEN_TO_POST_P50, SEEN_TO_POST_P99 = 15.0, 100.0


def main(arguments: Sequence[str]) -> int:
    """Measure; 0 when all was measured, whether or not a target was reached: that stands in the file."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Sandhold on the test cluster.")
    parser.add_argument("-n", type=int, default=12, help="pairs of starts for each runtime, at least 10 to be telling")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="measure these parts alone")
    chosen = parser.parse_args(arguments)
    try:
        with cluster_to_oneself():
            bring_up()
            images = builds.build_all()
            loading.load_all(images)
            cluster = Cluster()
            try:
                install(cluster, images)
                found = _measured(cluster, chosen.n, chosen.only)
            finally:
                cluster.close()
    except TestbedError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    _show(found)
    return 0


def _measured(cluster: Cluster, pairs: int, parts: Sequence[str]) -> dict[str, Any]:
    starts.prepare(cluster, tuple(TARGETS))
    measured_at = datetime.now(UTC)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "measuredAt": measured_at.isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "load15": round(os.getloadavg()[2], 2)},
        "versions": {"kubernetes": versions.KUBERNETES, "gvisor": versions.GVISOR, "containerd": versions.CONTAINERD},
    }
    if "starts" in parts:
        found |= _starts(cluster, pairs)
    if "writes" in parts:
        found["apiWrites"] = quietness.measure(cluster)
    if "archives" in parts:
        found["archives"] = archives.measure(cluster, f"{measured_at:%Y%m%d-%H%M%S}")
    if "crowd" in parts:
        found["crowd"] = crowd.measure(cluster)
    return found


def _starts(cluster: Cluster, pairs: int) -> dict[str, Any]:
    operator = Operator(cluster)
    sessions: dict[str, list[Started]] = {}
    results, memory = {}, {}
    for tier, target in TARGETS.items():
        # The first of each warms caches up, and its pod is the model of all bare ones.
        starts.session(cluster, tier, f"{tier}-model")
        model = starts.pod_of(cluster, f"{tier}-model")
        if tier == "runc":
            memory = keeper_memory(model)
        starts.remove_session(cluster, f"{tier}-model")
        _bare(cluster, model, f"bare-{tier}-model")
        sessions[tier], bare = [], []
        for number in range(pairs):
            # Turn and turn about, so that going first or second favours neither.
            if number % 2:
                bare.append(_bare(cluster, model, f"bare-{tier}-{number}"))
            sessions[tier].append(_session(cluster, operator, tier, f"{tier}-{number}"))
            if not number % 2:
                bare.append(_bare(cluster, model, f"bare-{tier}-{number}"))
            taken = sessions[tier][-1].milliseconds
            print(f"  {tier} {number + 1}/{pairs}: session {taken:.0f} ms, bare pod {bare[-1]:.0f} ms", flush=True)
        results[tier] = figures.compared([one.milliseconds for one in sessions[tier]], bare, target)
    return _document(results, [one for each in sessions.values() for one in each], memory)


@dataclass(frozen=True)
class Started:
    """One cold start of a session: how long it took in all, and until its pod was POSTed."""

    milliseconds: float
    seen_to_post: float


def _session(cluster: Cluster, operator: Operator, tier: str, name: str) -> Started:
    seen = operator.seen_to_post()
    milliseconds = starts.session(cluster, tier, name)
    delay = _delay(seen, operator.seen_to_post())
    starts.remove_session(cluster, name)
    return Started(milliseconds, delay)


def _bare(cluster: Cluster, model: Object, name: str) -> float:
    milliseconds = starts.bare_pod(cluster, model, name)
    starts.remove_pod(cluster, name)
    return milliseconds


def _delay(before: tuple[int, float], after: tuple[int, float]) -> float:
    """The one session's delay in milliseconds, out of two readings of a histogram."""
    if after[0] != before[0] + 1:
        raise TestbedError(f"the operator counted {after[0] - before[0]} pod POSTs for one new session")
    return (after[1] - before[1]) * 1000


def _document(results: dict[str, Any], sessions: Sequence[Started], memory: dict[str, int]) -> dict[str, Any]:
    summary = figures.summary([one.seen_to_post for one in sessions])
    return {
        "unit": "milliseconds",
        "coldStart": results,
        "seenToPodPost": summary
        | {"target": {"p50": SEEN_TO_POST_P50, "p99": SEEN_TO_POST_P99}}
        | {"reached": summary["p50"] < SEEN_TO_POST_P50 and summary["p99"] < SEEN_TO_POST_P99},
        "keeperBytes": memory | {"target": KEEPER_BYTES, "reached": memory["rss"] <= KEEPER_BYTES},
    }


def _show(found: dict[str, Any]) -> None:
    for part, show in (("coldStart", _show_starts), ("apiWrites", _show_writes), ("archives", _show_archives)):
        if part in found:
            show(found)
    if crowd_found := found.get("crowd"):
        start = crowd_found["startMilliseconds"]
        print(
            f"{crowd_found['sessions']} at once: Ready p50 {start['p50']:.0f} ms, p99 {start['p99']:.0f} ms, "
            f"all within {crowd_found['allReadySeconds']} s; stopped within {crowd_found['allStoppedSeconds']} s; "
            f"{crowd_found['writesEach']} writes each"
        )
    print(f"written to {RESULT.relative_to(REPOSITORY)}")


def _show_starts(found: dict[str, Any]) -> None:
    for tier, result in found["coldStart"].items():
        ours, bare = result["session"], result["barePod"]
        print(
            f"cold {tier:7} session p50 {ours['p50']:.0f} ms, bare pod p50 {bare['p50']:.0f} ms: "
            f"{result['ratioOfMedians']} x (target {result['target']} x)"
        )
    post, keeper = found["seenToPodPost"], found["keeperBytes"]
    print(f"session seen to pod POST: p50 {post['p50']} ms, p99 {post['p99']} ms")
    print(f"keeper at rest: {keeper['rss'] / 1048576:.1f} MiB resident")


def _show_writes(found: dict[str, Any]) -> None:
    for part, counted in found["apiWrites"].items():
        wanted = f" (target {counted['target']})" if "target" in counted else ""
        print(f"API writes, {part}: {counted['count']}{wanted}")
        for request in counted["requests"]:
            print(f"    {request}")


def _show_archives(found: dict[str, Any]) -> None:
    both = found["archives"]
    print(f"a tree of {both['bytes'] / 1_000_000:.0f} MB, seconds (start without a workspace: ", end="")
    print(f"{both['sandhold']['emptyStart']} s)")
    for key in ("full", "restore", "unchanged", "changed"):
        rates = both["megabytesPerSecond"].get(key)
        speed = f", {rates['sandhold']} and {rates['restic']} MB/s" if rates else ""
        print(f"    {key:10} sandhold {both['sandhold'][key]:6.2f}, restic {both['restic'][key]:6.2f}{speed}")
