"""Entries on their way into a pod: what is mounted where, what travels, and what is said of one that is missing."""

import json
from typing import Any

import pytest

from sandhold import names
from sandhold.api.sandbox import AgentSandbox
from sandhold.backends.admit import Admission
from sandhold.desired import difference, orders, volumes
from sandhold.desired.pod import PodMaterial, sandbox_pod
from sandhold.desired.situation import admission_of
from sandhold.reasons import Refusal, RefusalCode
from testkit import worlds
from testkit.laws import decide

ENTRIES: list[dict[str, Any]] = [
    {"path": "notes", "directory": {}},
    {"path": "AGENTS.md", "configMap": {"name": "settings", "key": "agents.md"}},
    {"path": "skills", "configMap": {"name": "skills"}},
    {"path": ".token", "secret": {"name": "github", "key": "token"}},
    {"path": "copy", "configMap": {"name": "settings", "key": "agents.md"}, "mode": 0o600},
]


def sandbox_with(*entries: dict[str, Any]) -> AgentSandbox:
    return worlds.a_sandbox({"workspace": {"entries": list(entries)}})


def pod_of(sandbox: AgentSandbox) -> dict[str, Any]:
    admission = admission_of(sandbox, worlds.an_installation())
    assert isinstance(admission, Admission)
    material = PodMaterial("demo", admission, worlds.ACCOUNT_UID, "keeper:test", "Always", worlds.MOVER, worlds.CA)
    return sandbox_pod(material, sandbox, worlds.a_session(), 1)


def sources_of(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in pod["spec"]["volumes"] if each["name"].startswith("source-")}


def document_of(sandbox: AgentSandbox) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(orders.entries_document(sandbox.spec.workspace.entries))
    return found


def test_sources_are_mounted_into_the_keeper_alone_and_read_only() -> None:
    pod = pod_of(sandbox_with(*ENTRIES))
    sources = sources_of(pod)
    (keeper,), (agent,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    mounted = [each for each in keeper["volumeMounts"] if each["name"] in sources]
    assert [each["name"] for each in mounted] == list(sources)
    assert all(each["readOnly"] for each in mounted)
    assert not {each["name"] for each in agent["volumeMounts"]} & set(sources)


def test_a_source_is_optional_and_shows_only_the_key_that_is_asked_for() -> None:
    found = list(sources_of(pod_of(sandbox_with(*ENTRIES))).values())
    how = {"optional": True, "defaultMode": 0o440}
    key = [{"key": "agents.md", "path": "agents.md"}]
    # The copy is of the same key: one volume serves both.
    assert [{**each, "name": ""} for each in found] == [
        {"name": "", "configMap": {"name": "settings", "items": key, **how}},
        {"name": "", "configMap": {"name": "skills", **how}},
        {"name": "", "secret": {"secretName": "github", "items": [{"key": "token", "path": "token"}], **how}},
    ]


def test_the_order_names_each_source_as_it_is_mounted_and_holds_none_of_it() -> None:
    sandbox = sandbox_with(*ENTRIES)
    (keeper,) = pod_of(sandbox)["spec"]["initContainers"]
    folders = {each["mountPath"] for each in keeper["volumeMounts"]}
    document = document_of(sandbox)
    assert [entry["kind"] for entry in document] == ["Directory", "Copy", "Copy", "Copy", "Copy"]
    for entry in document[1:]:
        assert f"{names.PATH_KEEPER_SOURCES}/{entry['source']}" in folders
        assert "content" not in entry
    assert document[1] == {
        "path": "AGENTS.md",
        "kind": "Copy",
        "mode": 0o644,
        "source": document[1]["source"],
        "key": "agents.md",
    }
    assert (document[2]["folderMode"], document[2]["mode"], "key" in document[2]) == (0o755, 0o644, False)
    assert (document[3]["mode"], document[3]["ephemeral"]) == (0o600, True)
    assert (document[4]["source"], document[4]["mode"]) == (document[1]["source"], 0o600)


def test_the_place_in_the_list_says_nothing_about_the_source() -> None:
    there = document_of(sandbox_with(*ENTRIES))
    turned = document_of(sandbox_with(*reversed(ENTRIES)))
    assert sorted(map(json.dumps, there)) == sorted(map(json.dumps, turned))


@pytest.mark.parametrize(
    "other",
    [
        {"path": "a", "secret": {"name": "n", "key": "k"}},
        {"path": "a", "configMap": {"name": "n"}},
        {"path": "a", "configMap": {"name": "n", "key": "l"}},
        {"path": "a", "configMap": {"name": "m", "key": "k"}},
    ],
)
def test_no_two_sources_share_a_name(other: dict[str, Any]) -> None:
    one = sandbox_with({"path": "a", "configMap": {"name": "n", "key": "k"}})
    assert document_of(one)[0]["source"] != document_of(sandbox_with(other))[0]["source"]


def test_a_pod_with_sources_is_the_one_that_was_asked_for_and_one_without_is_outdated() -> None:
    asked = pod_of(sandbox_with(*ENTRIES))
    assert difference.pod_differences(asked, asked) == ()
    assert difference.is_outdated(asked, pod_of(sandbox_with()))
    assert not difference.is_outdated(asked, pod_of(sandbox_with(*ENTRIES)))


def test_a_source_that_somebody_shows_to_the_agent_is_an_alteration() -> None:
    asked, stored = pod_of(sandbox_with(*ENTRIES)), pod_of(sandbox_with(*ENTRIES))
    name = next(iter(sources_of(stored)))
    stored["spec"]["containers"][0]["volumeMounts"].append({"name": name, "mountPath": "/source"})
    assert difference.pod_differences(asked, stored)


def test_config_maps_count_against_the_pods_disk_and_secrets_do_not() -> None:
    without = volumes.keeper_disk_bytes(sandbox_with())
    assert volumes.keeper_disk_bytes(sandbox_with(ENTRIES[3])) == without
    assert volumes.keeper_disk_bytes(sandbox_with(*ENTRIES)) == without + 2 * (2 << 20)


def plan_while(sandbox: AgentSandbox, waiting_for: int | None, status: dict[str, Any] | None = None) -> Any:
    status = status if status is not None else worlds.a_status("Starting", 1)
    world = worlds.a_world(
        session=worlds.a_session(status=status),
        sandbox=worlds.Present(sandbox),
        pods=[worlds.a_pod(sandbox=sandbox)],
        keepers=worlds.a_keeper("Preparing", waiting_for=waiting_for),
    )
    return decide(world)


def workspace_ready(plan: Any) -> tuple[str, str]:
    found = next(each for each in plan.status["conditions"] if each["type"] == "WorkspaceReady")
    return found["reason"], found["message"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (1, "ConfigMap research/settings does not exist or has no key agents.md."),
        (2, "ConfigMap research/skills does not exist or is empty."),
        (3, "Secret research/github does not exist or has no key token."),
    ],
)
def test_what_is_missing_is_named_from_the_spec(place: int, said: str) -> None:
    reason, message = workspace_ready(plan_while(sandbox_with(*ENTRIES), place))
    assert reason == "EntrySourceMissing"
    assert said in message
    assert f"spec.workspace.entries[{place}]" in message


@pytest.mark.parametrize("place", [None, 0, 5, 4095])
def test_a_place_that_is_no_source_says_nothing(place: int | None) -> None:
    plan = plan_while(sandbox_with(*ENTRIES), place)
    assert plan.status is None or workspace_ready(plan)[0] != "EntrySourceMissing"


def test_the_word_goes_when_the_source_came() -> None:
    sandbox = sandbox_with(*ENTRIES)
    waiting = plan_while(sandbox, 1).status
    assert plan_while(sandbox, 1, waiting).status is None
    assert workspace_ready(plan_while(sandbox, None, waiting))[0] != "EntrySourceMissing"


def test_secrets_of_the_operators_own_namespace_are_shown_to_nobody() -> None:
    installation = worlds.an_installation()
    for entry, is_refused in ((ENTRIES[3], True), (ENTRIES[1], False)):
        sandbox = worlds.a_sandbox({"workspace": {"entries": [entry]}}, namespace=installation.operator_namespace)
        decided = admission_of(sandbox, installation)
        assert isinstance(decided, Refusal) == is_refused
        if isinstance(decided, Refusal):
            assert decided.code == RefusalCode.SPEC_REFUSED
            assert "spec.workspace.entries[0].secret" in decided.message
