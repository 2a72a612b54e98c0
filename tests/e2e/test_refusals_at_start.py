"""What cannot be guaranteed is refused, with its code, and heals where a person can make it possible.

All of them are started at once: each waits for something else, and none has anything to do with another.
"""

from collections.abc import Iterator

import pytest

from installation import bucket, client
from installation.client import Cluster, condition
from installation.deploying import ABSENT_BUCKET, ABSENT_STORE, ABSENT_TIER
from testkit.cluster_client import Field, Session
from testkit.cluster_fields import clear, field_of


@pytest.fixture(scope="module")
def shared(cluster: Cluster, testrun_uid: str) -> Iterator[Field]:
    """One namespace for all."""
    made = field_of(cluster, "refusals-at-start", testrun_uid)
    yield made
    assert not clear(made)
    if bucket_is_there():
        bucket.client().delete_bucket(Bucket=ABSENT_BUCKET)


def bucket_is_there() -> bool:
    return any(each.get("Name") == ABSENT_BUCKET for each in bucket.client().list_buckets()["Buckets"])


@pytest.fixture(scope="module")
def sessions(shared: Field) -> dict[str, Session]:
    assert not bucket_is_there()
    shared.sandbox("ghostly", ABSENT_TIER)
    shared.sandbox("unpullable", image="localhost/no-such-image:1")
    shared.sandbox("bucketless", snapshot={"store": ABSENT_STORE})
    shared.sandbox("storeless", snapshot={"store": "no-such-store"})
    shared.sandbox("untiered", "no-such-tier")
    named = ("ghostly", "unpullable", "bucketless", "storeless", "untiered", "unknown")
    return {name: shared.session(name, name) for name in named}


def test_an_unknown_sandbox(sessions: dict[str, Session]) -> None:
    refusal = sessions["unknown"].wait_refusal("sandbox_unavailable")
    assert "unknown" in refusal["message"]
    assert sessions["unknown"].condition("Ready")["status"] == "False"


def test_it_starts_when_the_sandbox_comes_to_exist(shared: Field, sessions: dict[str, Session]) -> None:
    sessions["unknown"].wait_refusal("sandbox_unavailable")
    shared.sandbox("unknown")
    sessions["unknown"].wait_phase("Ready")
    assert "refusal" not in sessions["unknown"].status()


def test_a_runtime_class_that_is_missing(shared: Field, sessions: dict[str, Session]) -> None:
    refusal = sessions["ghostly"].wait_refusal("runtime_class_missing")
    assert "no-such-runtime" in refusal["message"]
    assert not [p for p in shared.pods() if p["metadata"]["name"].startswith("ghostly")]


def test_a_tier_that_nobody_configured(shared: Field, sessions: dict[str, Session]) -> None:
    sessions["untiered"].wait(
        "not Ready, with a reason", lambda s: bool(s.get("refusal")) and s.get("phase") != "Ready", seconds=60
    )
    sandbox = shared.cluster.get("AgentSandbox", shared.namespace, "untiered")
    accepted = condition(sandbox, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "TierUnknown")
    assert "no-such-tier" in accepted["message"]


def test_an_image_that_cannot_be_pulled(sessions: dict[str, Session]) -> None:
    told = sessions["unpullable"].wait_condition("PodReady", "ImagePullFailed")
    assert "localhost/no-such-image:1" in told["message"]
    assert sessions["unpullable"].condition("Ready")["status"] == "False"


def test_a_store_that_nobody_configured(shared: Field, sessions: dict[str, Session]) -> None:
    sessions["storeless"].wait("not Ready, with a reason", lambda s: bool(s.get("refusal")), seconds=60)
    sandbox = shared.cluster.get("AgentSandbox", shared.namespace, "storeless")
    assert condition(sandbox, "Accepted")["reason"] == "SnapshotStoreUnavailable"


def test_a_bucket_that_is_missing_and_then_made(shared: Field, sessions: dict[str, Session]) -> None:
    told = sessions["bucketless"].wait_condition("Ready", "SnapshotStoreUnavailable")
    assert ABSENT_BUCKET in told["message"]
    assert "does not exist" in told["message"]
    assert not [p for p in shared.pods() if p["metadata"]["name"].startswith("bucketless") and is_open(p)]
    bucket.client().create_bucket(Bucket=ABSENT_BUCKET)
    sessions["bucketless"].wait_phase("Ready", seconds=150)
    snapshot = sessions["bucketless"].suspend()
    assert snapshot["key"] in bucket.sizes(bucket=ABSENT_BUCKET)
    for key in bucket.sizes(bucket=ABSENT_BUCKET):
        bucket.remove(key, ABSENT_BUCKET)


def is_open(pod: dict[str, object]) -> bool:
    return str(condition(pod, "Ready")["status"]) == "True"


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside", "a//b", "."])
def test_an_entry_whose_path_escapes_is_refused_at_once(shared: Field, path: str) -> None:
    entry = {"path": path, "file": {"content": "x"}}
    with pytest.raises(client.CallError, match="path") as refused:
        shared.sandbox("escaping", workspace={"entries": [entry]})
    assert refused.value.code == 422


def test_an_entry_is_never_written_through_a_link_that_the_agent_left(shared: Field) -> None:
    """An ordinary entry gives way to what the agent put in its place. An ephemeral one cannot: it has to be there."""
    ordinary = {"path": "notes/file", "file": {"content": "from the entry"}}
    ephemeral = {"path": "keys/file", "ephemeral": True, "file": {"content": "from the entry"}}
    shared.sandbox("linked", workspace={"entries": [ordinary, ephemeral]})
    session = shared.session("linked", "linked")
    session.wait_phase("Ready")
    session.shell("rm -r notes; mkdir other; ln -s other notes; echo own > other/file")
    session.suspend()
    session.resume()
    assert session.shell("cat other/file; readlink notes").split() == ["own", "other"]
    assert session.shell("cat keys/file") == "from the entry"

    session.shell("rm -r keys; ln -s other keys")
    session.suspend()
    session.set_mode("Running")
    refusal = session.wait_refusal("workspace_setup_failed")
    assert "keys/file" in refusal["message"]
    assert session.status()["snapshot"]["key"] in bucket.sizes()
