"""An archive that was cut short, altered or moved is refused, never used and never replaced by an empty workspace.

Each kind of damage is done to a session of its own; all are stopped together and started together.
"""

import pytest

from installation import bucket
from testkit.cluster_client import Field, Session, folder_of, layer_keys
from testkit.fault_matrix import FaultMatrix

ANOTHER = "another"


def _truncate_layer(session: Session) -> None:
    [layer] = layer_keys(session.status()["snapshot"]["key"])
    content = bucket.read(layer)
    bucket.write(layer, content[: len(content) // 2])


def _alter_layer(session: Session) -> None:
    [layer] = layer_keys(session.status()["snapshot"]["key"])
    content = bytearray(bucket.read(layer))
    content[len(content) // 2] ^= 1
    bucket.write(layer, bytes(content))


def _remove_layer(session: Session) -> None:
    [layer] = layer_keys(session.status()["snapshot"]["key"])
    bucket.remove(layer)


def _truncate_manifest(session: Session) -> None:
    key = session.status()["snapshot"]["key"]
    bucket.write(key, b"".join(bucket.read(key).splitlines(keepends=True)[:-1]))


def _alter_manifest(session: Session) -> None:
    key = session.status()["snapshot"]["key"]
    bucket.write(key, bucket.read(key).replace(b'"path":"file"', b'"path":"elif"'))


def _replace_by_another_slots(session: Session) -> None:
    """Everything of another slot, under this slot's keys: whole in itself, and not ours."""
    key = session.status()["snapshot"]["key"]
    other = Session(session.field, ANOTHER).status()["snapshot"]["key"]
    [layer], [foreign] = layer_keys(key), layer_keys(other)
    bucket.write(folder_of(key) + foreign.removeprefix(folder_of(other)), bucket.read(foreign))
    bucket.write(key, bucket.read(other))
    assert layer != foreign


DAMAGES = {
    "cut-layer": _truncate_layer,
    "altered-layer": _alter_layer,
    "removed-layer": _remove_layer,
    "cut-manifest": _truncate_manifest,
    "altered-manifest": _alter_manifest,
    "moved": _replace_by_another_slots,
}


@pytest.mark.long
@pytest.mark.timeout(420)
def test_damage_is_refused_and_an_intact_archive_heals_it(field: Field, matrix: FaultMatrix) -> None:
    field.sandbox("coder", command=["sh", "-c", "echo started >> started; exec sleep infinity"])
    sessions = {name: field.session(name, "coder") for name in (*DAMAGES, ANOTHER)}
    for session in sessions.values():
        session.wait_phase("Ready", seconds=180)
        session.shell(f"echo {session.name} > file")
    for session in sessions.values():
        session.set_mode("Suspended")
    for session in sessions.values():
        session.wait_phase("Suspended", seconds=180)
    intact = {
        key: bucket.read(key)
        for s in sessions.values()
        for key in bucket.sizes(folder_of(s.status()["snapshot"]["key"]))
    }
    faults = {name: matrix.begin(f"archive damaged: {name}", "runc") for name in DAMAGES}
    for name, damage in DAMAGES.items():
        damage(sessions[name])
    for name in DAMAGES:
        sessions[name].set_mode("Running")
    refusals = {}
    for name in DAMAGES:
        refusals[name] = sessions[name].wait_refusal("invalid_snapshot", seconds=120)
        assert sessions[name].status()["phase"] in {"Failed", "Starting"}
        assert sessions[name].condition("Ready")["status"] == "False"
    _nothing_started(field)
    for key, content in intact.items():
        bucket.write(key, content)
    for name in DAMAGES:
        sessions[name].annotate("sandhold.dev/retry", "1")
    for name in DAMAGES:
        sessions[name].wait_phase("Ready", seconds=180)
        found = sessions[name].shell("cat file started").split()
        faults[name].judge_refusal(refusals[name]["message"], [name, "started", "started"], found)


def _nothing_started(field: Field) -> None:
    """No gate opened: the readiness probe of the agent's container asks init, which knows."""
    for pod in field.pods():
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        assert conditions.get("Ready") != "True", pod["metadata"]["name"]
