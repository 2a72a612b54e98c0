"""What stands in two languages is the same in both: the names of the pod's paths, the limits of the frames."""

import re

import pytest

from sandhold import names
from sandhold.mover import wire
from sandhold.snapshots import records
from testkit.fake_mover import FakeMover
from testkit.keeper_binary import SOURCES
from testkit.keeper_pod import KeeperPod, eventually
from testkit.keeper_stories import at_home, prepare

PATHS = (SOURCES / "internal/gate/paths.go").read_text()
FRAMES = (SOURCES / "internal/wire/frames.go").read_text()
DIAL = (SOURCES / "internal/wire/dial.go").read_text()


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("SANDHOLD_GATE", names.PATH_GATE),
        ("SANDHOLD_HINTS", names.PATH_HINTS),
        ("SANDHOLD_PRIVATE", names.PATH_KEEPER_PRIVATE),
        ("SANDHOLD_TOKEN_FILE", f"{names.PATH_KEEPER_TOKEN}/token"),
        ("SANDHOLD_PODINFO", names.PATH_KEEPER_PODINFO),
        ("SANDHOLD_SOURCES", names.PATH_KEEPER_SOURCES),
    ],
)
def test_the_binary_looks_where_the_operator_mounts(variable: str, path: str) -> None:
    assert f'pathOf("{variable}", "{path}")' in PATHS


def test_limits_and_names_of_the_wire() -> None:
    assert f"JSONLimit = {wire.LIMIT_JSON >> 10} << 10" in FRAMES
    assert f"DataLimit = {wire.LIMIT_DATA >> 10} << 10" in FRAMES
    assert re.search(rf"\bversion\s+= {wire.PROTOCOL_VERSION}\n", DIAL)
    assert f'serverName = "{names.MOVER_TLS_NAME}"' in DIAL


def test_limits_of_records() -> None:
    longest_path = (
        int(re.search(r"maxPath\s+= (\d+) << 10", (SOURCES / "internal/tree/folders.go").read_text())[1]) << 10
    )
    assert longest_path * 8 == records.LONGEST_LINE
    assert "recordLimit = 8 * maxPath" in (SOURCES / "internal/tree/records.go").read_text()


async def test_the_longest_message_is_taken_and_a_longer_one_ends_the_connection(
    pod: KeeperPod, mover: FakeMover
) -> None:
    await at_home(pod, mover)
    order = prepare(padding="")
    room = wire.LIMIT_JSON - len(wire.encode_message({"type": "order", "order": order})) + 5
    await mover.order(**prepare(padding="x" * room))
    await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")

    mover.say_raw((wire.LIMIT_JSON + 1).to_bytes(4, "big") + b"J")
    await eventually(lambda: f"{wire.LIMIT_JSON + 1} bytes is not allowed" in pod.keeper_log(), "the keeper hung up")
    await mover.until(lambda: len(mover.hellos) == 2)
