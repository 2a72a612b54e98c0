"""One leftover of each kind, really planted, turns the comparison red: otherwise "nothing is left" means nothing.

Links, routes, rules and mounts are planted in a network and a mount namespace that end with the test, so that the
machine's own are not touched.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import cgroups, inventory, places

pytestmark = pytest.mark.cluster

HACK = Path(__file__).parents[2] / "hack"
COMPARE = """
import subprocess, sys
from testbed import inventory
before = inventory.take()
for step in sys.argv[1:]:
    subprocess.run(step.split(), check=True)
print("\\n".join(inventory.take().difference(before)))
"""


@pytest.mark.parametrize(
    ("kind", "plant", "expected"),
    [
        ("mounts", ["mount -t tmpfs planted /mnt"], "/mnt"),
        ("links", ["ip link add planted0 type veth peer name planted1"], "planted0"),
        ("routes", ["ip link set lo up", "ip route add blackhole 198.51.100.0/24"], "blackhole 198.51.100.0/24"),
        ("rules", ["iptables -N PLANTED"], "iptables-save: :PLANTED -"),
    ],
)
def test_a_planted_leftover_is_seen(kind: str, plant: list[str], expected: str) -> None:
    compared = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", COMPARE, *plant],
        env=os.environ | {"PYTHONPATH": str(HACK)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert f"{kind}: left behind: {expected}" in compared.splitlines()


def test_a_planted_cgroup_is_seen() -> None:
    before = inventory.take()
    planted = cgroups.tracking() / "sandhold-planted"
    planted.mkdir()
    try:
        difference = inventory.take().difference(before)
    finally:
        planted.rmdir()
    assert f"cgroups: left behind: {planted}" in difference


@contextmanager
def a_process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input does, so that it cannot outlive this test."""
    wait = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", wait, *arguments], stdin=subprocess.PIPE) as process:
        yield process


def test_a_process_that_names_our_state_directory_is_seen() -> None:
    before = inventory.take()
    with a_process(f"{places.state()}/planted") as process:
        difference = inventory.take().difference(before)
    assert [line for line in difference if line.startswith(f"processes: left behind: {process.pid} ")]


def test_a_process_in_our_cgroup_is_seen() -> None:
    group = cgroups.tracking() / places.CGROUP / "planted"
    parent_was_there = group.parent.exists()
    group.mkdir(parents=True)
    before = inventory.take()
    try:
        with a_process() as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            difference = inventory.take().difference(before)
    finally:
        group.rmdir()
        if not parent_was_there:
            group.parent.rmdir()
    assert [line for line in difference if line.startswith(f"processes: left behind: {process.pid} ")]


def test_other_peoples_processes_are_not_ours() -> None:
    with a_process("somebody", "else") as process:
        counted = inventory.take().processes
    assert not [line for line in counted if line.startswith(f"{process.pid} ")]


def test_what_is_gone_is_reported_too() -> None:
    empty = inventory.Inventory(*(frozenset[str]() for _ in range(6)))
    one = inventory.Inventory(frozenset({"1 etcd"}), *(frozenset[str]() for _ in range(5)))
    assert empty.difference(one) == ["processes: gone: 1 etcd"]


def test_a_cgroup_of_somebody_who_ended_is_no_difference_and_a_new_one_is() -> None:
    empty = inventory.Inventory(*(frozenset[str]() for _ in range(6)))
    other = inventory.Inventory(*(frozenset[str]() for _ in range(5)), frozenset({"/sys/fs/cgroup/somebody"}))
    assert empty.difference(other) == []
    assert other.difference(empty) == ["cgroups: left behind: /sys/fs/cgroup/somebody"]
