"""Orders and grants."""

import base64
import hashlib
import json

from sandhold.desired import orders
from sandhold.mover.grant import Grant
from testkit import worlds

HOLDER = orders.Holder("demo", worlds.pod_uid(), worlds.SLOT, 3, "main", worlds.NOW)


def test_entries_travel_in_parts_that_fit_a_frame_and_add_up() -> None:
    entries = [{"path": f"d/f{number}", "file": {"content": "ü" * 20000}} for number in range(10)]
    sandbox = worlds.a_sandbox({"workspace": {"entries": [*entries, {"path": "e", "mode": 0o700, "directory": {}}]}})
    document = orders.entries_document(sandbox.spec.workspace.entries)
    parts = orders.entries_orders("uid", document)
    assert len(parts) > 10
    assert all(len(part.arguments["data"]) <= 32 * 1024 for part in parts)
    assert [part.arguments["index"] for part in parts] == list(range(len(parts)))
    assert {part.arguments["count"] for part in parts} == {len(parts)}
    joined = b"".join(base64.b64decode(part.arguments["data"]) for part in parts)
    assert {part.arguments["digest"] for part in parts} == {hashlib.sha256(joined).hexdigest()}
    told = json.loads(joined)
    assert told[-1] == {"path": "e", "kind": "Directory", "mode": 0o700}
    assert told[0]["mode"] == 0o644
    assert base64.b64decode(told[0]["content"]).decode() == "ü" * 20000


def test_no_entries_are_a_list_too() -> None:
    (part,) = orders.entries_orders("uid", orders.entries_document(()))
    assert base64.b64decode(part.arguments["data"]) == b"[]"


def test_grants_are_what_a_mover_accepts() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"maxBytes": "10Mi", "maxFiles": 100}})
    archive = Grant.model_validate(orders.archive_grant(HOLDER, 2, sandbox))
    assert (archive.verb, archive.sequence, archive.final) == ("archive", 2, True)
    assert (archive.max_bytes, archive.max_files) == (10 << 20, 100)
    assert archive.expires == int(worlds.NOW.timestamp()) + 3600
    restore = Grant.model_validate(orders.restore_grant(HOLDER, worlds.an_archive(2, 1), sandbox))
    assert restore.source is not None
    assert (restore.source.epoch, restore.source.sequence) == (2, 1)


def test_a_limit_lowered_since_does_not_make_an_archive_unreadable() -> None:
    sandbox = worlds.a_sandbox({"snapshot": {"maxBytes": "1", "maxFiles": 1}})
    grant = Grant.model_validate(orders.restore_grant(HOLDER, worlds.an_archive(), sandbox))
    assert grant.max_bytes >= worlds.an_archive().bytes
    assert grant.max_files >= worlds.an_archive().files


def test_without_limits_nothing_that_fits_a_volume_is_too_large() -> None:
    grant = Grant.model_validate(orders.archive_grant(HOLDER, 1, worlds.a_sandbox()))
    assert grant.max_bytes > 1 << 45
    assert grant.max_files >= 100_000_000


def test_the_word_says_what_to_start_and_with_what() -> None:
    sandbox = worlds.a_sandbox({"command": ["sh"], "args": ["-c", "true"], "workingDir": "/workspace/a"})
    word = orders.open_order("uid", "c", sandbox, worlds.a_session()).arguments["word"]
    assert word["argv"] == ["sh", "-c", "true"]
    assert word["workingDir"] == "/workspace/a"
    assert word["env"]["HOME"] == "/home/agent"
    idle = orders.open_order("uid", "c", worlds.a_sandbox({"command": []}), worlds.a_session()).arguments["word"]
    assert (idle["argv"], idle["workingDir"]) == ([], "/workspace")
