"""Files from ConfigMaps and Secrets: waited for, seen by the agent as copies alone, written anew, never archived."""

from typing import Any

import pytest

from testkit.cluster_client import SYSTEM, Field, manifest

ENTRIES = [
    {"path": "NOTES.md", "file": {"content": "begin here\n"}},
    {"path": "AGENTS.md", "ephemeral": True, "configMap": {"name": "settings", "key": "agents.md"}},
    {"path": "skills", "configMap": {"name": "settings"}},
    {"path": ".config/token", "secret": {"name": "registry", "key": "token"}},
    {"path": ".cache", "ephemeral": True, "directory": {}},
]
APPEARS_SECONDS = 180
"""The kubelet looks at the volumes of a running pod about once a minute."""


def put(field: Field, kind: str, name: str, values: dict[str, str]) -> None:
    content: dict[str, Any] = {"stringData": values} if kind == "Secret" else {"data": values}
    metadata = {"namespace": field.namespace, "name": name}
    field.cluster.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, **content})


@pytest.mark.parametrize("tier", ["runc", "gvisor"])
def test_entries_come_from_config_maps_and_secrets(field: Field, tier: str) -> None:
    put(field, "Secret", "registry", {"token": "first-t0ken", "other": "n0t-asked-for"})
    field.sandbox("coder", tier, workspace={"size": "256Mi", "entries": ENTRIES})
    session = field.session("quill", "coder")
    waiting = session.wait_condition("WorkspaceReady", "EntrySourceMissing")
    assert f"ConfigMap {field.namespace}/settings does not exist or has no key agents.md" in waiting["message"]
    assert "spec.workspace.entries[1]" in waiting["message"]
    assert session.status()["phase"] == "Starting"

    put(field, "ConfigMap", "settings", {"agents.md": "first\n", "style.md": "short\n"})
    session.wait_phase("Ready", APPEARS_SECONDS)
    assert session.status()["recovery"] == "Initialized"
    said = session.shell(
        "cat NOTES.md AGENTS.md skills/style.md .config/token; echo; stat -c %a AGENTS.md skills .config/token"
    )
    assert said.split() == ["begin", "here", "first", "short", "first-t0ken", "644", "755", "600"]
    assert session.shell("find . -type l") == ""

    # Nothing of the volumes themselves is in the agent's container.
    assert "sources" not in session.shell("cat /proc/self/mounts; ls -R /run/sandhold 2>&1")

    session.shell("echo work >> NOTES.md; echo mine > AGENTS.md; rm skills/style.md; echo junk > .cache/large")
    put(field, "ConfigMap", "settings", {"agents.md": "second\n", "style.md": "long\n"})
    put(field, "Secret", "registry", {"token": "second-t0ken"})
    first = session.pod_uid()
    snapshot = session.suspend()
    recorded = [record["path"] for record in manifest(snapshot["key"])[1]]
    assert recorded == [".config", "NOTES.md", "skills", "skills/agents.md"]

    session.resume()
    assert session.pod_uid() != first
    assert session.status()["recovery"] == "Restored"
    said = session.shell("cat NOTES.md AGENTS.md skills/agents.md .config/token; echo; ls -A skills .cache")
    assert said.split() == [
        *("begin", "here", "work", "second", "first", "second-t0ken"),
        *(".cache:", "skills:", "agents.md"),
    ]

    cluster, pod = field.cluster, session.pod()["metadata"]["name"]
    told = cluster.kubectl("logs", "-n", field.namespace, pod, "-c", "keeper")
    for component in ("operator", "mover"):
        told += cluster.kubectl("logs", "-n", SYSTEM, "-l", f"app.kubernetes.io/component={component}", "--tail=2000")
    told += cluster.kubectl("get", "sandhold,pods,events", "-n", field.namespace, "-o", "yaml")
    assert pod in told
    assert "t0ken" not in told
