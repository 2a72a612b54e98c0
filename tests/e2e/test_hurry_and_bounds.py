"""People and programs in a hurry, and objects as large and as odd as the API lets them be."""

import itertools
import json
import time
from typing import Any

import pytest

from installation.client import CallError, Cluster, until
from testkit.cluster_client import STOP_SECONDS, SYSTEM, Field, Session
from testkit.fault_matrix import FaultMatrix
from testkit.node import the_pod_of

TIMES = 50
TIERS = ("runc", "gvisor")


def test_sessions_created_and_deleted_within_milliseconds_leave_nothing(
    cluster: Cluster, field: Field, matrix: FaultMatrix
) -> None:
    """Every fifth under one name; some live for a moment, so that every step of a start is met by the deletion."""
    field.sandbox("coder", resources={"requests": {"cpu": "1m"}, "limits": {"cpu": "1", "memory": "64Mi"}})
    stays = field.session("stays", "coder")
    stays.wait_phase("Ready")
    stays.shell("echo precious > file")
    before, first = stays.walk(), stays.pod_uid()
    operator = _operator(cluster)
    fault = matrix.begin("sessions created and deleted within milliseconds", "runc")
    of_the_other = matrix.begin("many short sessions beside this one", "runc")
    for number in range(TIMES):
        name = f"other-{number}" if number % 5 else "same"
        until("the name is free", lambda name=name: _create(field, name), seconds=60, every=0.05)  # type: ignore[misc]
        time.sleep(0.004 * (number % 10) ** 2)  # 0 to 0.3 s: what is varied is the moment of the deletion
        cluster.delete("SandboxSession", field.namespace, name)
    ours = {first}
    until("all sessions go", lambda: len(cluster.list("SandboxSession", field.namespace)) == 1, seconds=90)
    until("all pods go", lambda: {pod["metadata"]["uid"] for pod in field.pods()} == ours, seconds=60)
    # A short one whose gate had just opened has been archived, as it should be.
    unfinished = [
        each["metadata"]["name"]
        for each in cluster.list("SandboxSnapshot", field.namespace)
        if each.get("status", {}).get("phase") != "Ready"
    ]
    fault.judge_ending((operator, "Ready", []), (_operator(cluster), stays.status()["phase"], unfinished))
    of_the_other.judge_workspace(before, stays.walk(), is_same_pod=stays.pod_uid() == first)


def _create(field: Field, name: str) -> bool:
    try:
        field.session(name, "coder")
    except CallError as error:
        if error.code == 409:
            return False
        raise
    return True


def _operator(cluster: Cluster) -> tuple[str, int]:
    """Which pod it is, and how often its program was started again."""
    pod = the_pod_of(cluster, SYSTEM, "operator")
    return pod["metadata"]["uid"], sum(int(each["restartCount"]) for each in pod["status"]["containerStatuses"])


def test_suspend_resume_suspend_within_a_second(field: Field, matrix: FaultMatrix) -> None:
    sessions = {tier: field.session(tier, field.sandbox(f"idle-{tier}", tier)) for tier in TIERS}
    before, faults = {}, {}
    for session in sessions.values():
        session.wait_phase("Ready")
        session.shell("echo precious > file; mkdir folder; chmod 750 folder")
    for tier, session in sessions.items():
        before[tier] = (session.walk(), session.pod_uid())
        faults[tier] = matrix.begin("suspend, resume, suspend within a second", tier)
        began = time.monotonic()
        for mode in ("Suspended", "Running", "Suspended"):
            session.set_mode(mode)
        assert time.monotonic() - began < 1
    for session in sessions.values():
        generation = session.found()["metadata"]["generation"]

        def is_settled(status: dict[str, object], generation: int = generation) -> bool:
            return status.get("phase") == "Suspended" and status.get("observedGeneration") == generation

        session.wait("Suspended for the last word", is_settled, STOP_SECONDS)
    assert field.pods() == []
    for session in sessions.values():
        session.set_mode("Running")
    for tier, session in sessions.items():
        session.wait_phase("Ready")
        walk, pod = before[tier]
        faults[tier].judge_workspace(walk, session.walk(), is_same_pod=session.pod_uid() == pod)


UNICODE = "größe 大きさ \U0001f4e6\u202e\u0007'\"\\$(x)\n\t"
LARGEST: dict[str, Any] = {
    "env": [{"name": "LONG", "value": "v" * 8192}, {"name": "ODD", "value": UNICODE}],
    "command": ["python3", "-c", "import time\nwhile True: time.sleep(60)", "a" * 8192, UNICODE, ""],
    "workspace": {
        "size": "64Mi",
        "entries": [
            {"path": "large-1", "file": {"content": "x" * 131072}},
            {"path": "large-2", "file": {"content": "y" * (131072 - len(UNICODE) - 1)}},
            {"path": f"größe/大きさ/{'n' * 200}", "file": {"content": UNICODE}, "mode": 0o600},
            {"path": "/".join(["d" * 100] * 8), "file": {"content": ""}},
            *({"path": f"folder-{number:03}", "directory": {}} for number in range(124)),
        ],
    },
}
EMPTY: dict[str, Any] = {
    "env": [],
    "command": [],
    "args": [],
    "ports": [],
    "workspace": {"size": "1Mi", "entries": []},
    "pod": {},
}
SEES = """
import json, os
walk = {os.path.relpath(os.path.join(a, n), "/workspace") for a, b, c in os.walk("/workspace") for n in b + c}
odd = open("/workspace/größe/大きさ/" + "n" * 200).read()
print(json.dumps([len(walk), odd, len(open("/workspace/large-1").read()), len(open("/workspace/large-2").read())]))
"""


@pytest.mark.long
def test_specs_at_their_bounds_work_and_beyond_them_are_refused(field: Field, matrix: FaultMatrix) -> None:
    wide = "\U0001f4e6" * 8192  # four bytes a character: within every bound of the API, more than travels at once
    entries = [{"path": name, "file": {"content": "大" * 131072}} for name in ("a", "b")]
    specs: dict[str, dict[str, Any]] = {
        "largest": LARGEST,
        "empty": EMPTY,
        "wide-command": {"command": [wide], "args": [wide]},
        "wide-entries": {"workspace": {"entries": entries}},
    }
    made = {}
    for name, tier in itertools.product(specs, TIERS):
        field.sandbox(f"{name}-{tier}", tier, **specs[name])
        made[name, tier] = field.session(f"{name}-{tier}", f"{name}-{tier}")
    for name, code in (("wide-command", "command_too_long"), ("wide-entries", "spec_refused")):
        for tier in TIERS:
            fault = matrix.begin(f"spec too large to travel: {name}", tier)
            fault.judge_refusal(made[name, tier].wait_refusal(code)["message"])
    running = {key: session for key, session in made.items() if key[0] in ("largest", "empty")}
    faults = {(name, tier): matrix.begin(f"spec at its bounds: {name}", tier) for name, tier in running}
    before = {}
    for key, session in running.items():
        session.wait_phase("Ready")
        session.shell("echo precious > file")
        before[key] = (session.walk(), session.pod_uid())
    for tier in TIERS:
        _got_all(made["largest", tier])
    for session in running.values():
        session.set_mode("Suspended")
    for session in running.values():
        session.wait_phase("Suspended", STOP_SECONDS)
        session.set_mode("Running")
    for key, session in running.items():
        session.wait_phase("Ready")
        walk, pod = before[key]
        faults[key].judge_workspace(walk, session.walk(), is_same_pod=session.pod_uid() == pod)


def _got_all(largest: Session) -> None:
    found = json.loads(largest.python(SEES))
    # Entries, what is between them and the file of the test: 2 large, 3 and 8 parts of the deep ones, 124 folders.
    assert found == [2 + 3 + 8 + 124 + 1, UNICODE, 131072, 131072 - len(UNICODE) - 1], found
    assert largest.python("import os; print(ascii(os.environ['ODD']))").strip() == ascii(UNICODE)
