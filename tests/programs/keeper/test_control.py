"""The keeper at home and away: connection, evidence, gate, end, and what the agent may try on it."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fake_mover import FakeMover
from testkit.keeper_pod import KeeperPod, eventually
from testkit.keeper_stories import at_home, at_work, guard, keep, prepare, ready, waiting_init, word
from testkit.pki import Installation

KIB_OF_10_MIB = 10 * 1024
FRESH_SECONDS = 5.1
"""A little longer than evidence from before init's first word counts."""
KERNEL = Path("/proc/version").read_text().strip()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


async def test_a_keeper_at_rest_is_small(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    assert pod.resident_kib() <= KIB_OF_10_MIB


async def test_a_keeper_is_small_again_after_an_archive(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    pod.start_init()
    await mover.order(verb="open", challenge=await waiting_init(mover), word=word(pod))
    await mover.until_report(lambda report: report["agent"]["state"] == "Running")
    (pod.workspace / "large").write_bytes(os.urandom(1 << 20) * 40)
    for number in range(2000):
        (pod.workspace / f"small-{number}").write_bytes(b"x")
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    await mover.until_report(lambda report: report["archive"] and report["archive"]["state"] == "Stored")
    await eventually(lambda: pod.resident_kib() <= KIB_OF_10_MIB, "the keeper gave its memory back", patience=5)


async def test_a_keeper_that_guards_many_files_is_small(pod: KeeperPod, mover: FakeMover) -> None:
    await at_work(pod, mover)
    await keep(mover, final=False)
    await keep(mover, final=True)
    for folder in range(20):
        (pod.workspace / f"folder-{folder}").mkdir()
        for number in range(1000):
            (pod.workspace / f"folder-{folder}" / f"a file whose name is of some length {number}").touch()
    await guard(mover, size=1 << 40, limit=1 << 41, interval=1)
    await mover.until_report(lambda report: (report["archive"] or {}).get("state") == "Stored")
    await eventually(lambda: pod.resident_kib() <= KIB_OF_10_MIB, "the keeper gave its memory back", patience=5)


async def test_the_report_says_what_it_is_and_init_can_be_installed(pod: KeeperPod, mover: FakeMover) -> None:
    await at_home(pod, mover)
    assert mover.report["version"] == "0.0.0+test"
    assert mover.report["workspace"]["state"] == "Empty"
    assert mover.report["marker"] is None
    assert mover.report["archive"] is None
    assert pod.run("install", str(pod.gate / "init")).returncode == 0
    assert (pod.gate / "init").stat().st_mode & 0o7777 == 0o555
    assert (pod.gate / "init").read_bytes() == pod.binary.read_bytes()
    assert [path.name for path in pod.gate.iterdir()] == ["init"]


async def test_a_mover_that_goes_and_comes_is_a_normal_event(pod: KeeperPod, mover: FakeMover) -> None:
    await at_home(pod, mover)
    boot = mover.report["boot"]
    for _ in range(2):
        await mover.stop()
        await mover.until(lambda: not mover.is_connected())
        mover.reports.clear()
        await mover.start()
        await mover.until_report(lambda report: report["boot"] == boot)


async def test_a_keeper_that_waits_calls_at_once_when_the_address_changes(pod: KeeperPod, mover: FakeMover) -> None:
    (pod.podinfo / "mover-address").write_text("127.0.0.1:1")
    (pod.podinfo / "mover-ca").write_bytes(mover.installation.authority.certificate_pem)
    pod.start_keeper()
    await eventually(lambda: "refused" in pod.keeper_log(), "the keeper has tried")
    pod.point_at(mover)
    await mover.until_report(lambda _: True, patience=4)


@pytest.mark.parametrize("address", ["sandhold-mover:7443", "localhost:7443", "", "127.0.0.1"])
async def test_a_name_is_never_resolved(pod: KeeperPod, mover: FakeMover, address: str) -> None:
    pod.point_at(mover)
    (pod.podinfo / "mover-address").write_text(address)
    pod.start_keeper()
    await eventually(lambda: "mover address" in pod.keeper_log(), "the keeper says what is wrong")
    assert mover.hellos == []


async def test_a_mover_of_another_installation_is_not_spoken_to(pod: KeeperPod, mover: FakeMover) -> None:
    pod.point_at(mover)
    (pod.podinfo / "mover-ca").write_bytes(Installation.new().authority.certificate_pem)
    pod.start_keeper()
    await eventually(lambda: "certificate" in pod.keeper_log(), "the keeper says what is wrong")
    assert mover.hellos == []


async def test_a_refusal_is_said_without_the_token_and_tried_again(pod: KeeperPod, mover: FakeMover) -> None:
    mover.refusal = {"type": "refused", "code": "token_refused", "message": "the token has expired"}
    pod.point_at(mover)
    pod.start_keeper()
    await eventually(lambda: "the token has expired" in pod.keeper_log(), "the keeper says why")
    mover.refusal = None
    # As a kubelet does it: a keeper that dials meanwhile must not find half a token.
    renewed = pod.token.with_name("renewed")
    renewed.write_text("another.token.altogether")
    renewed.replace(pod.token)
    await mover.until_report(lambda _: True)
    assert mover.hellos[-1].token == "another.token.altogether"
    assert "payload" not in pod.keeper_log()
    assert "altogether" not in pod.keeper_log()


async def test_the_gate_opens_for_the_init_that_waits_and_for_no_other(pod: KeeperPod, mover: FakeMover) -> None:
    await at_home(pod, mover)
    pod.start_init()
    challenge = await waiting_init(mover)
    touch = word(pod, "sh", "-c", "echo ran >> ran; exec sleep 1000")
    await mover.order(verb="open", challenge=challenge, word=touch)  # too early: the workspace is not ready
    await mover.order(**prepare())
    await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")
    await mover.order(verb="open", challenge="0" * 32, word=touch)
    assert mover.report["gate"]["opened"] == ""
    assert not (pod.gate / "word.json").exists()

    await mover.order(verb="open", challenge=challenge, word=touch)
    await mover.until_report(lambda report: report["agent"]["state"] == "Running")
    await mover.order(verb="open", challenge=challenge, word=touch)
    assert mover.report["gate"] == {"challenge": challenge, "opened": challenge}
    await eventually((pod.workspace / "ran").exists, "the agent ran")
    assert (pod.workspace / "ran").read_text() == "ran\n"


async def test_an_init_started_again_waits_for_new_evidence_and_a_new_word(pod: KeeperPod, mover: FakeMover) -> None:
    probe = {"name": "mover", "address": "127.0.0.1", "port": mover.port}
    await ready(pod, mover, probes=[probe])
    pod.start_init()
    first = await waiting_init(mover)
    await mover.until_report(lambda report: report["evidence"] and report["evidence"]["challenge"] == first)
    assert mover.report["evidence"]["round"] == 1
    await mover.order(verb="open", challenge=first, word=word(pod, "sleep", "1000"))
    await mover.until_report(lambda report: report["agent"]["state"] == "Running")
    pod.stop_init()

    pod.start_init()
    second = await waiting_init(mover, other_than=first)
    await mover.until_report(lambda report: report["evidence"]["challenge"] == second)
    assert mover.report["evidence"]["round"] == 2
    assert mover.report["gate"] == {"challenge": second, "opened": first}
    assert mover.report["agent"]["state"] == "Waiting"


async def test_evidence_tells_what_was_seen(pod: KeeperPod, mover: FakeMover, closed_port: int) -> None:
    probes = [
        {"name": "canary", "address": "127.0.0.1", "port": closed_port},
        {"name": "mover", "address": "127.0.0.1", "port": mover.port},
        {"name": "nonsense", "address": "not-an-address", "port": 1},
    ]
    await at_home(pod, mover)
    await mover.order(**prepare(probes=probes))
    report = await mover.until_report(lambda report: report["evidence"])
    outcomes = {probe["name"]: probe["outcome"] for probe in report["evidence"]["probes"]}
    assert outcomes == {"canary": "Refused", "mover": "Connected", "nonsense": "Failed"}
    assert report["evidence"]["runtime"] == {
        "version": KERNEL,
        "release": os.uname().release,
    }


async def test_evidence_waits_until_the_canary_is_walled_off(pod: KeeperPod, mover: FakeMover) -> None:
    with socket.create_server(("127.0.0.1", 0)) as canary:
        port = canary.getsockname()[1]
        await at_home(pod, mover)
        await mover.order(**prepare(probes=[{"name": "canary", "address": "127.0.0.1", "port": port}]))
        for _ in range(5):
            canary.accept()[0].close()
        assert mover.report["evidence"] is None
    report = await mover.until_report(lambda report: report["evidence"])
    assert report["evidence"]["probes"][0]["outcome"] == "Refused"


async def test_a_canary_that_nobody_listens_on_any_more_is_looked_at_again_at_another_address(
    pod: KeeperPod, mover: FakeMover, closed_port: int
) -> None:
    """As a mover that is replaced while a pod starts: its address is dead, and that is no proof of a wall."""
    await at_home(pod, mover)
    pod.start_init()
    challenge = await waiting_init(mover)
    await mover.order(**prepare(probes=canary_and_mover(closed_port, closed_port)))
    await mover.until_report(lambda report: (report["evidence"] or {}).get("challenge") == challenge)
    assert outcomes(mover) == {"canary": "Refused", "mover": "Refused"}
    with socket.create_server(("127.0.0.1", 0)) as canary:
        port = canary.getsockname()[1]
        canary.settimeout(10)
        await mover.order(**prepare(probes=canary_and_mover(port, mover.port)))
        for _ in range(5):  # no wall stands yet, and so nothing is reported of it
            canary.accept()[0].close()
        assert outcomes(mover) == {"canary": "Refused", "mover": "Refused"}
    await mover.until_report(lambda report: report["evidence"]["round"] > 1)
    assert outcomes(mover) == {"canary": "Refused", "mover": "Connected"}
    assert mover.report["evidence"]["challenge"] == challenge


async def test_who_asks_for_evidence_again_gets_a_new_round_of_the_same_addresses(
    pod: KeeperPod, mover: FakeMover, closed_port: int
) -> None:
    """A mover that starts again keeps its address."""
    with socket.socket() as away:
        away.bind(("127.0.0.1", 0))
        port = away.getsockname()[1]
        await ready(pod, mover, probes=canary_and_mover(closed_port, port))
        pod.start_init()
        challenge = await waiting_init(mover)
        await mover.until_report(lambda report: (report["evidence"] or {}).get("challenge") == challenge)
        assert outcomes(mover)["mover"] == "Refused"
        away.listen()
        await mover.order(**prepare(probes=canary_and_mover(closed_port, port)))
        await mover.until_report(lambda report: report["evidence"]["round"] > 1)
    assert outcomes(mover)["mover"] == "Connected"


def canary_and_mover(canary: int, door: int) -> list[dict[str, object]]:
    places = (("canary", canary), ("mover", door))
    return [{"name": name, "address": "127.0.0.1", "port": port} for name, port in places]


def outcomes(mover: FakeMover) -> dict[str, str]:
    return {probe["name"]: probe["outcome"] for probe in mover.report["evidence"]["probes"]}


async def test_an_init_that_speaks_late_is_not_served_with_what_was_seen_long_before(
    pod: KeeperPod, mover: FakeMover
) -> None:
    """An image that takes minutes to come: what holds then counts, not what held before."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        await at_home(pod, mover)
        await mover.order(**prepare(probes=[{"name": "hole", "address": "127.0.0.1", "port": hole.getsockname()[1]}]))
        report = await mover.until_report(lambda report: report["evidence"])
        assert report["evidence"]["probes"][0]["outcome"] == "Refused"
        assert report["evidence"]["challenge"] == ""
        await asyncio.sleep(FRESH_SECONDS)
        hole.listen()
        pod.start_init()
        challenge = await waiting_init(mover)
        report = await mover.until_report(lambda report: report["evidence"]["challenge"] == challenge)
    assert report["evidence"]["probes"][0]["outcome"] == "Connected"


async def test_end_reaches_the_agent_and_every_init_after_it(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    pod.start_init()
    first = await waiting_init(mover)
    await mover.order(verb="open", challenge=first, word=word(pod, "sleep", "1000"))
    await mover.until_report(lambda report: report["agent"]["state"] == "Running")
    await mover.order(verb="end", graceSeconds=5)
    report = await mover.until_report(lambda report: report["agent"]["state"] == "Ended")
    assert report["agent"]["exitCode"] == 143

    pod.stop_init()
    pod.stop_keeper()
    await mover.meet(pod.start_keeper)
    pod.start_init()
    second = await waiting_init(mover, other_than=first)
    await mover.order(verb="open", challenge=second, word=word(pod, "touch", "ran"))
    await mover.until_report(lambda r: r["gate"]["challenge"] == second and r["agent"]["state"] == "Ended")
    assert list(pod.workspace.iterdir()) == []


async def test_an_agent_that_forges_its_hint_does_not_escape_its_end(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    pod.start_init()
    real = await waiting_init(mover)
    await mover.order(verb="open", challenge=real, word=word(pod, "sleep", "1000"))
    await mover.until_report(lambda report: report["agent"]["state"] == "Running")
    (pod.hints / "init.json").write_text(json.dumps({"challenge": "f" * 32, "state": "Running", "exitCode": 0}))
    await waiting_init(mover, other_than=real)
    await mover.order(verb="end", graceSeconds=0)
    report = await mover.until_report(lambda report: report["agent"]["state"] == "Ended")
    assert report["gate"]["challenge"] == real


async def test_a_tree_that_somebody_else_filled_is_not_touched(pod: KeeperPod, mover: FakeMover) -> None:
    (pod.workspace / "precious").write_text("work of days")
    await at_home(pod, mover)
    await mover.order(**prepare())
    report = await mover.until_report(lambda report: report["workspace"]["state"] == "Failed")
    assert report["workspace"]["code"] == "workspace_setup_failed"
    assert (pod.workspace / "precious").read_text() == "work of days"


async def test_a_keeper_started_again_knows_its_workspace(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    (pod.workspace / "work").write_text("since then")
    pod.stop_keeper()
    report = await mover.meet(pod.start_keeper)
    assert report["workspace"]["state"] == "Ready"
    assert report["marker"]["epoch"] == 3
    await mover.order(**prepare())
    await mover.order(**prepare(epoch=4))
    await mover.until_report(lambda report: report["evidence"])
    assert mover.report["marker"]["epoch"] == 3
    assert (pod.workspace / "work").read_text() == "since then"


async def test_nothing_is_archived_from_a_pod_whose_gate_did_not_open(pod: KeeperPod, mover: FakeMover) -> None:
    await ready(pod, mover)
    await mover.order(verb="archive", sequence=1, final=True, grant="g")
    report = await mover.until_report(lambda report: report["archive"])
    assert report["archive"]["state"] == "Failed"
    assert report["archive"]["code"] == "manifest_producer_failed"
    assert [hello.purpose for hello in mover.hellos] == ["control"]


async def test_orders_that_are_nonsense_are_survived(pod: KeeperPod, mover: FakeMover) -> None:
    await at_home(pod, mover)
    for order in [
        {"verb": "fly"},
        {"verb": 7},
        {},
        {"verb": "entries", "digest": "x", "index": 5, "count": 2, "data": ""},
        {"verb": "entries", "digest": "x", "index": 0, "count": 1, "data": "AAAA"},
        {"verb": "prepare", "epoch": "three"},
        {"verb": "end", "graceSeconds": "soon"},
    ]:
        await mover.order(**order)
    await mover.order(**prepare())
    await mover.until_report(lambda report: report["workspace"]["state"] == "Ready")


@pytest.mark.parametrize("is_home", [True, False])
async def test_sigterm_ends_an_idle_keeper_at_once(pod: KeeperPod, mover: FakeMover, *, is_home: bool) -> None:
    if is_home:
        await ready(pod, mover)
    else:
        pod.start_keeper()
        await eventually(lambda: "mover address" in pod.keeper_log(), "the keeper is up")
    assert pod.stop_keeper(signal.SIGTERM) == 0
