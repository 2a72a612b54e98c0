"""Gauges are what the cache and the loops hold at the moment of asking, and cheap at ten thousand sessions."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import REGISTRY

from sandhold import names
from sandhold.cluster.cache import Cache
from sandhold.handlers.gauges import Gauges
from sandhold.heartbeats import Heartbeats
from sandhold.workqueue import Key, WorkQueue


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    def __init__(self) -> None:
        self.clock = Clock()
        self.cache = Cache(clock=self.clock)
        self.queue = WorkQueue(clock=self.clock)
        self.heartbeats = Heartbeats(self.clock)
        self.gauges = Gauges(
            cache=self.cache,
            queue=self.queue,
            connections=self,
            heartbeats=self.heartbeats,
            silences=lambda: {"Pod": 7.0, "RuntimeClass": 8.0},
            now=lambda: 1_700_000_600.0,
        )

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return {"movers": {"known": 2, "connected": 1, "synced": 0}, "keepers": {"connected": 5, "silent": 1}}

    def put(self, kind: str, name: str, status: dict[str, Any]) -> None:
        metadata = {"namespace": "a", "name": name, "uid": f"{kind}-{name}", "resourceVersion": "1"}
        self.cache.put({"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "status": status})

    def session(self, name: str, phase: str | None, snapshot: str | None = None) -> None:
        self.put("SandboxSession", name, {"phase": phase, "snapshot": {"name": snapshot} if snapshot else None})


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"sandhold_{name}", labels)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_sessions_are_counted_by_phase_and_a_phase_that_is_left_goes_to_zero(bench: Bench) -> None:
    bench.session("one", "Ready")
    bench.session("two", "Ready")
    bench.session("new", None)
    bench.session("odd", "Invented")
    bench.gauges.refresh()
    assert value("sessions", phase="Ready") == 2
    assert value("sessions", phase="None") == 1
    assert value("sessions", phase="Invented") is None, "what a status claims is no label"
    bench.cache.replace_all("SandboxSession", [], "9")
    bench.gauges.refresh()
    assert value("sessions", phase="Ready") == 0


def test_the_oldest_recovery_point_is_that_of_a_session_that_runs(bench: Bench) -> None:
    bench.gauges.refresh()
    assert value("oldest_recovery_point_seconds") == 0
    bench.put("SandboxSnapshot", "young", {"createdAt": "2023-11-14T22:20:00Z"})
    bench.put("SandboxSnapshot", "old", {"createdAt": "2023-11-14T22:15:00Z"})
    bench.put("SandboxSnapshot", "ancient", {"createdAt": "2001-11-14T22:15:00Z"})
    bench.session("one", "Ready", "young")
    bench.session("two", "Ready", "old")
    bench.session("three", "Suspended", "ancient")
    bench.session("four", "Ready", "missing")
    bench.gauges.refresh()
    assert value("oldest_recovery_point_seconds") == 500


@pytest.mark.parametrize("moment", ["", "0000-13-45Z", "never", "0001-01-01T00:00:00Z", 7, None])
def test_a_moment_that_is_none_breaks_no_scrape(bench: Bench, moment: object) -> None:
    bench.put("SandboxSnapshot", "odd", {"createdAt": moment})
    bench.session("one", "Ready", "odd")
    bench.gauges.refresh()


def test_queue_movers_keepers_and_loops_are_shown(bench: Bench) -> None:
    bench.heartbeats.loop("workers 1", 10)
    bench.queue.add(Key("SandboxSession", "a", "one"))
    bench.clock.now += 4
    bench.cache.replace_all("Pod", [], "1")
    bench.clock.now += 2
    bench.gauges.refresh()
    assert value("queue_depth") == 1
    assert value("queue_oldest_seconds") == 6
    assert value("movers", state="connected") == 1
    assert value("keepers", state="silent") == 1
    assert value("heartbeat_age_seconds", loop="workers") == 6
    assert value("watch_age_seconds", kind="Pod") == 7
    assert value("list_age_seconds", kind="Pod") == 2
    assert value("list_age_seconds", kind="RuntimeClass") is None, "a kind that was never listed has no age"


def test_ten_thousand_sessions_cost_milliseconds(bench: Bench) -> None:
    for number in range(10_000):
        bench.put("SandboxSnapshot", f"s{number}", {"createdAt": f"2023-11-14T22:{number % 60:02}:00Z"})
        bench.session(f"n{number}", "Ready", f"s{number}")
    bench.gauges.refresh()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        bench.gauges.refresh()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.1, took
