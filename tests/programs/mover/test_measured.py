"""What a mover tells of itself: metrics with bounded labels, and JSON lines that say which pod they are about."""

import json
import re
from contextlib import suppress
from typing import Any

from sandhold.mover.wire import PeerGoneError
from testkit.mover_process import MoverProcess, Pod, eventually, new_pod
from testkit.s3_server import S3Server
from testkit.token_review_server import TokenReviewServer
from testkit.wire_keeper import dialled, file_record, hello

RECORDS = [file_record("f", b"x")]
LAYER = bytes(300_000)
SERIES = re.compile(r"^(sandhold_mover_\w+)(?:\{(.*)\})? \S+$")
LABELS = {
    "direction": {"in", "out"},
    "verb": {"archive", "restore"},
    "state": {"unproven", "review", "proven"},
    "outcome": {"done", "ended", "manifest_producer_failed", "snapshot_store_unavailable", "manifest_missing"},
    "reason": {"token_refused", "grant_refused", "no_hello", "hung_up"},
    "code": {"no_connection"},
}


async def archive(mover: MoverProcess, pod: Pod, **fields: Any) -> dict[str, Any]:
    grant = mover.installation.grant("archive", pod.uid, pod.slot)
    async with mover.keeper("archive", pod.token, grant) as peer:
        await peer.send_archive(LAYER, RECORDS, **fields)
        return await peer.hear()


async def restore(mover: MoverProcess, pod: Pod, sequence: int = 1) -> None:
    source = {"epoch": 1, "sequence": sequence}
    grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source=source)
    async with mover.keeper("restore", pod.token, grant) as peer:
        if (await peer.hear())["type"] == "manifest":
            await peer.hear_part()
            await peer.hear_part()
            assert (await peer.hear())["type"] == "end"


async def a_day(mover: MoverProcess, s3: S3Server, pod: Pod, reviews: TokenReviewServer) -> None:
    """Something of everything: archives and restores that are done, fail and break off, and hellos that are refused."""
    assert (await archive(mover, pod))["type"] == "stored"
    await restore(mover, pod)
    assert (await archive(mover, pod, files=7))["code"] == "manifest_producer_failed"
    await restore(mover, pod, sequence=9)
    thief = new_pod(reviews)
    for message in (
        hello("control", "aaaa.bbbb.cccc"),
        hello("archive", thief.token, mover.installation.grant("archive", pod.uid, pod.slot)),
        {"type": "what"},
    ):
        async with dialled(mover.keeper_port, mover.installation.keeper_tls()) as peer:
            await peer.say(message)
            with suppress(PeerGoneError):
                await peer.hear()
    s3.stop()
    assert (await archive(mover, pod))["code"] == "snapshot_store_unavailable"


async def test_what_happened_is_counted(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod, reviews: TokenReviewServer
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    async with own_mover.keeper("control", pod.token):
        await a_day(own_mover, own_s3, pod, reviews)
        assert own_mover.metric("sandhold_mover_keepers") == 1
        await eventually(lambda: own_mover.metric("sandhold_mover_connections", state="proven") == 1)
    count = own_mover.metric
    transfers = "sandhold_mover_transfers_total"
    await eventually(lambda: count(transfers, verb="archive", outcome="snapshot_store_unavailable") == 1)
    assert count(transfers, verb="archive", outcome="done") == 1
    assert count(transfers, verb="restore", outcome="done") == 1
    assert count(transfers, verb="archive", outcome="manifest_producer_failed") == 1
    assert count(transfers, verb="restore", outcome="manifest_missing") == 1
    # Nothing is taken for a store that is down.
    assert count("sandhold_mover_bytes_total", direction="in") == 2 * len(LAYER)
    assert count("sandhold_mover_bytes_total", direction="out") == len(LAYER)
    assert count("sandhold_mover_transfer_seconds_count", verb="archive") == 1
    for reason in ("token_refused", "grant_refused", "no_hello"):
        assert count("sandhold_mover_refused_hellos_total", reason=reason) == 1, reason
    assert count("sandhold_mover_store_errors_total", code="no_connection") >= 1
    for verb in ("archive", "restore"):
        assert count("sandhold_mover_transfers_running", verb=verb) == 0


async def test_no_label_holds_what_a_pod_or_a_store_has_said(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod, reviews: TokenReviewServer
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    await a_day(own_mover, own_s3, pod, reviews)
    seen: dict[str, set[str]] = {}
    for line in own_mover.metrics().splitlines():
        found = SERIES.match(line)
        for label, value in re.findall(r'(\w+)="([^"]*)"', found[2] or "") if found else ():
            seen.setdefault(label, set()).add(value)
    seen.pop("le")
    assert seen.keys() == LABELS.keys()
    for label, values in seen.items():
        assert values <= LABELS[label], label


async def test_every_line_of_the_log_is_json_and_says_which_pod_it_is_about(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod, reviews: TokenReviewServer
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    await a_day(own_mover, own_s3, pod, reviews)
    own_mover.terminate()
    assert own_mover.wait() == 0
    said = [json.loads(line) for line in own_mover.log().splitlines()]
    [stored] = [line for line in said if line["msg"] == "stored as 1-1"]
    about = {"kind": "Pod", "namespace": "team", "uid": pod.uid, "slot": pod.slot, "epoch": 1, "verb": "archive"}
    assert about.items() <= stored.items()
    failures = [line for line in said if line.get("code") == "snapshot_store_unavailable"]
    assert [line["uid"] for line in failures] == [pod.uid]
    assert failures[0]["level"] == "WARNING"


def test_what_is_no_page_is_not_found(mover: MoverProcess) -> None:
    assert mover.probe("/livez") == 200
    assert mover.probe("/metrics") == 404
    assert mover.probe("/") == 404
