"""Agents that attack from inside their pods: what they had is archived and restored, and nobody else notices.

Both runtimes at once, each fault with agents of its own: they have nothing to do with each other.
"""

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from installation.client import Cluster, Object, until
from testbed import places
from testbed.failure import TestbedError
from testkit import hostile
from testkit.cluster_client import STOP_SECONDS, SYSTEM, Field, Session
from testkit.fault_matrix import Fault, FaultMatrix

TIERS = ("runc", "gvisor")
SLOW_SECONDS = 120
"""These agents eat all the processor time that they get, on a machine that has other work."""
NAMES = {
    "forks": ("agent floods the mover's port", "agent forks without end"),
    "swaps": ("agent swaps files for links and FIFOs during the archive",),
}
"""What the agents of each group do."""
WORK = """
import os
os.makedirs("/workspace/stable/deep"); os.makedirs("/workspace/race")
for number in range(40):
    with open(f"/workspace/stable/{number:02}", "wb") as file:
        file.write(os.urandom(1000 + number * 997))
os.chmod("/workspace/stable/07", 0o400)
os.symlink("00", "/workspace/stable/link"); os.link("/workspace/stable/01", "/workspace/stable/deep/same")
with open("/workspace/stable/large", "wb") as file:
    file.write(os.urandom(24 << 20))
with open("/workspace/bait", "wb") as file:
    file.write(b"A" * 1000)
"""
BOUNDED: Object = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "1", "memory": "384Mi", "ephemeral-storage": "64Mi"},
}


def agents(field: Field, name: str, program: str) -> dict[str, Session]:
    """One session under each runtime whose agent is such a program; nothing is waited for."""
    made = {}
    for tier in TIERS:
        spec: Object = {
            "command": ["python3", "-c", program],
            "resources": BOUNDED,
            "snapshot": {"intervalSeconds": 10},
        }
        spec["workspace"] = {"size": "1Gi"}
        sandbox = field.sandbox(f"{name}-{tier}", tier, **spec)
        made[tier] = field.session(sandbox, sandbox)
    return made


def at_work(*groups: dict[str, Session]) -> None:
    """Wait until all are Ready, and put work into their workspaces."""
    for session in (each for group in groups for each in group.values()):
        session.wait_phase("Ready")
        session.python(WORK)


def stable(session: Session) -> list[Object]:
    """What no agent here touches."""
    inside = b"stable/".hex()
    return [entry for entry in session.walk() if str(entry["path"]).startswith(inside)]


def go(session: Session) -> None:
    """The agent begins."""
    session.shell("touch /tmp/go")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_hostile_agents(cluster: Cluster, field: Field, matrix: FaultMatrix) -> None:
    """All in one namespace, calm until it is their turn: what each had is there in the end, and nobody was held up."""
    forking, swapping = agents(field, "forks", hostile.FORKS_WITHOUT_END), agents(field, "swaps", hostile.SWAPS_FILES)
    at_work(forking, swapping)
    address = mover_address(cluster)
    for tier in TIERS:
        _poses(swapping[tier], address, matrix.begin("agent speaks as the keeper", tier))
    sessions = {("forks", tier): forking[tier] for tier in TIERS} | {("swaps", tier): swapping[tier] for tier in TIERS}
    before = {key: stable(session) for key, session in sessions.items()}
    first = {key: session.pod_uid() for key, session in sessions.items()}
    faults = [(key, matrix.begin(name, key[1])) for key in sessions for name in NAMES[key[0]]]
    _flooded(field, forking, address, matrix)
    _stopped_in_the_race(swapping)
    _stopped_when_full(forking)
    for session in sessions.values():
        session.set_mode("Running")
    after = {}
    for key, session in sessions.items():
        session.wait_phase("Ready")
        smuggled = json.loads(session.python(SMUGGLED, hostile.LEGAL_BYTES.hex()))
        after[key] = [*stable(session), *smuggled]
    for key, fault in faults:
        fault.judge_workspace(before[key], after[key], is_same_pod=sessions[key].pod_uid() == first[key])


def _stopped_in_the_race(swapping: dict[str, Session]) -> None:
    for session in swapping.values():
        go(session)
    for session in swapping.values():
        until("the race is on", lambda session=session: len(session.shell("ls race").split()) > 5, seconds=SLOW_SECONDS)  # type: ignore[misc]
        calm = _checkpoint(session.status())
        session.wait("a checkpoint in the race", _newer_than(calm), seconds=SLOW_SECONDS)
        session.set_mode("Suspended")
    for session in swapping.values():
        session.wait_phase("Suspended", STOP_SECONDS + SLOW_SECONDS)


def _stopped_when_full(forking: dict[str, Session]) -> None:
    """Last, and no longer than it takes: what they eat, everybody else on the machine waits for."""
    for session in forking.values():
        go(session)
        until("nothing more can be started", lambda session=session: _is_full(session), seconds=SLOW_SECONDS)  # type: ignore[misc]
        session.set_mode("Suspended")
    for session in forking.values():
        session.wait_phase("Suspended", STOP_SECONDS + SLOW_SECONDS)


def _newer_than(number: int) -> Callable[[Object], bool]:
    return lambda status: _checkpoint(status) > number


def _checkpoint(status: Object) -> int:
    """Number of the newest archive of this run."""
    snapshot = status.get("snapshot") or {"sequence": 0}
    return int(snapshot["sequence"])


def _is_full(session: Session) -> bool:
    """Whether the pod has reached a limit of processes, or is near it."""
    try:
        return len(session.execute("sh", "-c", "echo /proc/[0-9]*").split()) > 100
    except TestbedError:
        return True


SMUGGLED = """
import json, os, stat, sys
legal, found = bytes.fromhex(sys.argv[1]), []
for folder, folders, names in os.walk("/workspace/race"):
    for name in names + folders:
        path = os.path.join(folder, name)
        facts = os.lstat(path)
        if stat.S_ISREG(facts.st_mode):
            os.chmod(path, 0o600)
            with open(path, "rb") as file:
                if file.read().strip(legal):
                    found.append(path)
        elif stat.S_ISDIR(facts.st_mode):
            os.chmod(path, 0o700)
        elif not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            found.append(path)
print(json.dumps(found))
"""
"""Prints which files of the race hold anything that the agent did not write: then it was read where it is secret.

Opens up all of them on its way, for the walker.
"""


def _flooded(field: Field, attackers: dict[str, Session], address: str, matrix: FaultMatrix) -> None:
    """Another session starts, stops and starts again in the flood."""
    with ExitStack() as after:
        floods = {tier: _flood(session, address, seconds=240) for tier, session in attackers.items()}
        for flood in floods.values():
            after.callback(flood.kill)
        fault = matrix.begin("another pod floods the mover's port", "runc")
        field.sandbox("calm")
        calm = field.session("calm", "calm")
        calm.wait_phase("Ready")
        calm.shell("echo precious > file")
        before, first = calm.walk(), calm.pod_uid()
        calm.suspend()
        assert all(flood.poll() is None for flood in floods.values()), "the stop was meant to meet the flood"
        calm.resume()
        fault.judge_workspace(before, calm.walk(), is_same_pod=calm.pod_uid() == first)
        for tier, flood in floods.items():
            attackers[tier].shell("touch /tmp/enough")
            said, trouble = flood.communicate(timeout=120)
            assert int(said or "0") > 200, f"no flood worth the name under {tier}: {said} {trouble}"


def _flood(session: Session, address: str, seconds: float) -> "subprocess.Popen[str]":
    """The flood runs in the agent's container while the test goes on."""
    words = ["exec", "-i", "-n", session.field.namespace, session.status()["podName"], "-c", "agent", "--"]
    program = [str(places.cache() / "bin" / "kubectl"), f"--kubeconfig={places.kubeconfig()}", *words]
    flood = subprocess.Popen(
        [*program, "python3", "-", address, "7443", str(seconds)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert flood.stdin is not None
    flood.stdin.write(hostile.FLOODS)
    flood.stdin.close()
    flood.stdin = None
    return flood


def _poses(session: Session, address: str, fault: Fault) -> None:
    before, uid = session.walk(), session.pod_uid()
    said = session.python(hostile.SPEAKS_AS_KEEPER, address, "7443", uid)
    answers = [json.loads(line) for line in said.splitlines()]
    assert len(answers) == 15
    assert {answer["type"] for answer in answers} <= {"refused", "hung up"}, answers
    assert session.status()["phase"] == "Ready"
    assert session.pod_uid() == uid
    words = "; ".join(answer["message"] for answer in answers if answer["type"] == "refused")
    fault.judge_refusal(words, before, session.walk())


def mover_address(cluster: Cluster) -> str:
    """Where keepers call home."""
    return cluster.kubectl("get", "service", "-n", SYSTEM, "sandhold-mover", "-o", "jsonpath={.spec.clusterIP}").strip()
