from typing import Any

import pytest

from sandhold.api.pod import EnvVar
from sandhold.api.sandbox import AgentSandbox
from sandhold.backends.admit import Admission, admit
from sandhold.backends.model import Backends, default_backends
from sandhold.reasons import REFUSALS, Refusal, RefusalCode

CLASSES = {"gvisor": "runsc", "runc": "runc"}
BACKENDS = Backends.model_validate(
    {
        "installation_id": "demo",
        "default_tier": "gvisor",
        "tiers": {
            "gvisor": {"runtime_class": "gvisor", "egress": {"cni": {}}, "default_image": "registry.example/a/agent:1"},
            "runc": {"runtime_class": "runc", "egress": {"cni": {}}},
            "kata": {"runtime_class": "kata-qemu", "egress": {"cni": {}}},
        },
        "image_allowlist": ["registry.example/a/*", "python:3.13", "registry.example/b/c@*", "node:*"],
        "resource_defaults": {"cpu": "2", "memory": "4Gi"},
        "sandbox_ttl_seconds": 3600,
        "stores": {
            "main": {"type": "s3", "bucket": "workspaces"},
            "another": {"type": "s3", "bucket": "others"},
            "other": {"type": "s3", "bucket": "others"},
        },
        "default_store": "main",
    }
)


def sandbox(**spec: Any) -> AgentSandbox:
    return AgentSandbox.model_validate({"metadata": {"name": "box", "namespace": "ns"}, "spec": spec})


def admitted(**spec: Any) -> Admission:
    answer = admit(sandbox(**spec), BACKENDS, CLASSES)
    assert isinstance(answer, Admission), answer
    return answer


def test_what_is_left_out_comes_from_the_configuration() -> None:
    assert admitted() == Admission(
        tier="gvisor",
        runtime_class="gvisor",
        handler="runsc",
        egress_mechanism="cni",
        image="registry.example/a/agent:1",
        store="main",
        ttl_seconds=3600,
        resources={"limits": {"cpu": "2", "memory": "4Gi"}},
    )


def test_what_is_given_counts() -> None:
    answer = admitted(
        tier="runc",
        image="python:3.13",
        snapshot={"store": "other"},
        lifecycle={"ttlSeconds": 60},
        resources={"requests": {"memory": "8Gi"}, "limits": {"cpu": "500m"}},
    )
    assert (answer.tier, answer.handler, answer.image, answer.store) == ("runc", "runc", "python:3.13", "other")
    assert answer.ttl_seconds == 60
    assert answer.resources == {"requests": {"memory": "8Gi"}, "limits": {"cpu": "500m", "memory": "8Gi"}}


def test_no_store_is_needed_where_nothing_is_kept() -> None:
    answer = admit(sandbox(image="a", snapshot={"onStop": False}), default_backends("id"), {"runc": "runc"})
    assert isinstance(answer, Admission)
    assert answer.store is None


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"tier": "strong"}, RefusalCode.TIER_UNKNOWN, "spec.tier of AgentSandbox box is strong"),
        ({"tier": "kata", "image": "python:3.13"}, RefusalCode.RUNTIME_CLASS_MISSING, "RuntimeClass"),
        ({"tier": "runc"}, RefusalCode.SPEC_REFUSED, "spec.image of AgentSandbox box is missing"),
        ({"image": "python:3.12"}, RefusalCode.IMAGE_NOT_ALLOWED, "spec.image of AgentSandbox box is python:3.12"),
        ({"image": "registry.example/ab"}, RefusalCode.IMAGE_NOT_ALLOWED, "registry.example/ab"),
        ({"snapshot": {"store": "lost"}}, RefusalCode.SNAPSHOT_STORE_UNAVAILABLE, "spec.snapshot.store"),
        ({"command": ["\u00e9" * 8192], "args": ["\u00e9" * 8190]}, RefusalCode.COMMAND_TOO_LONG, "spec.command"),
        (
            {"workspace": {"entries": [{"path": f"f{n}", "file": {"content": "\u20ac" * 131072}} for n in range(2)]}},
            RefusalCode.SPEC_REFUSED,
            "spec.workspace.entries",
        ),
    ],
)
def test_a_refusal_has_its_code_names_object_or_field_and_says_what_to_do(
    spec: dict[str, Any], code: RefusalCode, words: str
) -> None:
    answer = admit(sandbox(**spec), BACKENDS, CLASSES)
    assert isinstance(answer, Refusal)
    assert answer.code == code
    assert words in answer.message
    assert answer.action
    assert answer.reason.isalnum()


def test_archives_without_any_store_are_refused() -> None:
    answer = admit(sandbox(image="a"), default_backends("id"), {"runc": "runc"})
    assert isinstance(answer, Refusal)
    assert answer.code == "snapshot_store_unavailable"
    assert "onStop" in answer.action


def test_the_environment_of_a_session_counts_too() -> None:
    big = [EnvVar(name=f"A{n}", value="\u00e9" * 8000) for n in range(2)]
    answer = admit(sandbox(), BACKENDS, CLASSES, big)
    assert isinstance(answer, Refusal)
    assert answer.code == "command_too_long"


def test_equal_questions_have_equal_answers() -> None:
    assert admit(sandbox(tier="x"), BACKENDS, CLASSES) == admit(sandbox(tier="x"), BACKENDS, CLASSES)


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example/a/x", True),
        ("registry.example/a/x/y:1", True),
        ("registry.example/a/", False),
        ("registry.example/b/c@sha256:0", True),
        ("registry.example/b/c:1", False),
        ("python:3.13", True),
        ("python:3.13-slim", False),
        ("node:24", True),
        ("node:24@sha256:0", True),
        ("node:5000/evil/image:1", False),
        ("registry.example/b/c@sha256/evil", False),
        ("docker.io/library/python:3.13", False),
    ],
)
def test_the_allow_list_compares_text(image: str, *, allowed: bool) -> None:
    assert BACKENDS.allows(image) is allowed


def test_an_empty_allow_list_allows_nothing() -> None:
    none = Backends.model_validate(
        {
            "installation_id": "demo",
            "default_tier": "runc",
            "tiers": {"runc": {"runtime_class": "runc", "egress": {"cni": {}}}},
            "image_allowlist": [],
        }
    )
    assert not none.allows("python:3.13")
    assert default_backends("x").allows("python:3.13")


def test_every_code_is_explained() -> None:
    assert set(REFUSALS) == set(RefusalCode)
