"""Which cluster is meant; and what is asked of kind and an engine, by programs that only write down their arguments.

No engine runs where these tests do: they say what would be done, not that it works.
"""

import json
import time
from pathlib import Path

import pytest
import yaml

from testbed import build, choice, cli, kind_cluster, network, packages, places, s3
from testbed.choice import Provider
from testbed.failure import TestbedError


class Machine:
    """The programs that are installed, and the calls that they got."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = folder / "said"
        self.said.touch()

    def install(self, name: str, script: str = "exit 0") -> Path:
        program = self.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.said}\n{script}\n')
        program.chmod(0o755)
        return program

    def calls(self, name: str) -> list[str]:
        return [line for line in self.said.read_text().splitlines() if line.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("env", "sh", "sleep"):
        (programs / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("SANDHOLD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SANDHOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(network, "exists", lambda: False)
    monkeypatch.setattr(choice, "ASK_SECONDS", 1)
    (tmp_path / "state").mkdir()
    return Machine(programs)


def test_without_an_engine_it_is_the_native_cluster(machine: Machine) -> None:
    machine.install("kind")
    assert choice.chosen() == choice.Choice(Provider.NATIVE, "no container engine answers")


def test_a_client_without_a_daemon_is_no_engine(machine: Machine) -> None:
    machine.install("kind")
    machine.install("docker", "echo Cannot connect to the Docker daemon >&2; exit 1")
    machine.install("podman", "echo Cannot connect to the socket; exit 0")
    assert choice.answering_engine() is None
    assert len(machine.calls("docker")) == len(machine.calls("podman")) == 1


def test_an_engine_that_hangs_is_given_up_within_the_bound(machine: Machine) -> None:
    machine.install("docker", "exec sleep 60")
    machine.install("podman")
    began = time.monotonic()
    assert choice.answering_engine() == "podman"
    assert time.monotonic() - began < 10


def test_an_engine_without_kind_is_the_native_cluster_and_says_why(machine: Machine) -> None:
    machine.install("docker")
    assert choice.chosen() == choice.Choice(Provider.NATIVE, "kind is not installed")


def test_an_engine_and_kind_are_a_cluster_of_kind(machine: Machine) -> None:
    machine.install("docker")
    machine.install("kind")
    assert choice.chosen().provider is Provider.KIND
    assert choice.chosen().engine == "docker"


def test_a_cluster_that_is_there_is_the_one_that_is_meant(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("docker")
    machine.install("kind")
    monkeypatch.setattr(network, "exists", lambda: True)
    assert choice.chosen().provider is Provider.NATIVE
    assert machine.calls("docker") == [], "nobody is asked when it is clear"
    choice.marker().touch()
    assert choice.chosen().provider is Provider.KIND


def test_a_cluster_of_kind_whose_engine_is_away_is_no_other_cluster(machine: Machine) -> None:
    machine.install("kind")
    choice.marker().touch()
    with pytest.raises(TestbedError, match="a kind cluster is there, but no container engine answers"):
        choice.chosen()


@pytest.mark.parametrize(("word", "fault"), [("kind", "no container engine answers"), ("minikube", "native, kind")])
def test_a_persons_word_is_not_replaced_by_another(
    word: str, fault: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(choice.VARIABLE, word)
    with pytest.raises(TestbedError, match=fault):
        choice.chosen()
    machine.install("docker")
    machine.install("kind")
    monkeypatch.setenv(choice.VARIABLE, "native")
    assert choice.chosen().provider is Provider.NATIVE


@pytest.fixture
def kind_machine(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with docker and kind where everything that is asked works."""
    inspected = json.dumps([{"NetworkSettings": {"Networks": {"kind": {"IPAddress": "172.18.0.2"}}}}])
    machine.install("docker", f"case \"$1\" in inspect) echo '{inspected}';; esac")
    machine.install("kind", 'case "$1 $2" in "get kubeconfig") echo "made: by kind";; esac')
    machine.install("ip", 'case "$1 $2" in "route show") echo there;; esac')
    kubectl = machine.install("kubectl", 'case "$*" in *"get nodes"*) echo "node Ready";; esac')
    parts = {name: tmp_path / name for name in kind_cluster.PARTS}
    for folder in parts.values():
        folder.mkdir()
    (parts["kube"] / "kubectl").symlink_to(kubectl)
    answers = iter([False, False, True])
    monkeypatch.setattr(build, "build_all", lambda *_: parts)
    monkeypatch.setattr(packages, "require_root", lambda: None)
    monkeypatch.setattr(places, "LOCK_FILE", tmp_path / "lock")
    monkeypatch.setattr(s3, "ready", lambda: next(answers, True))
    monkeypatch.setattr(s3, "ensure_bucket", lambda: None)
    return machine


def test_up_makes_a_cluster_and_says_that_nobody_ever_saw_it(
    kind_machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up"]) == 0
    assert "UNVERIFIED" in capsys.readouterr().out
    assert places.kubeconfig().read_text() == "made: by kind\n"
    [created] = [call for call in kind_machine.calls("kind") if "create" in call]
    assert "--wait" in created
    assert "ip route replace 172.31.0.2/32 via 172.18.0.2" in kind_machine.calls("ip")
    served = [call for call in kind_machine.calls("docker") if "versitygw" in call]
    assert len(served) == 1
    assert "172.31.0.2:7070" in served[0]
    assert cli.main(["status"]) == 0


def test_up_again_makes_no_second_cluster(kind_machine: Machine) -> None:
    kind_machine.install("kind", 'case "$1 $2" in "get clusters") echo sandhold;; esac')
    assert cli.main(["up"]) == 0
    assert not [call for call in kind_machine.calls("kind") if "create" in call]


def test_load_and_down_go_to_kind_and_daemons_do_not(
    kind_machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up"]) == 0
    assert cli.main(["load", str(tmp_path / "image.tar")]) == 0
    assert f"kind load image-archive {tmp_path / 'image.tar'} --name sandhold" in kind_machine.calls("kind")
    assert cli.main(["stop", "s3"]) == 1
    assert "no daemons" in capsys.readouterr().err
    assert cli.main(["down"]) == 0
    assert "kind delete cluster --name sandhold" in kind_machine.calls("kind")
    assert "ip route del 172.31.0.2/32" in kind_machine.calls("ip")
    assert not choice.marker().exists()


def test_podman_is_told_to_kind(kind_machine: Machine) -> None:
    kind_machine.install("kind", f'echo "provider $KIND_EXPERIMENTAL_PROVIDER" >> {kind_machine.said}')
    kind_cluster.KindCluster("podman").load([Path("image.tar")])
    assert kind_machine.calls("provider") == ["provider podman"]


def test_the_configuration_has_the_ranges_limits_and_runtimes_of_the_native_cluster(tmp_path: Path) -> None:
    parts = {name: tmp_path / name for name in kind_cluster.PARTS}
    document = yaml.safe_load(json.dumps(kind_cluster.configuration(parts)))
    assert document["networking"] == {"podSubnet": places.POD_RANGE, "serviceSubnet": places.SERVICE_RANGE}
    assert json.loads(document["kubeadmConfigPatches"][0])["podPidsLimit"] == 512
    assert "runtimes.runsc" in document["containerdConfigPatches"][0]
    mounted = {Path(mount["containerPath"]).name for mount in document["nodes"][0]["extraMounts"]}
    assert mounted == {"runsc", "containerd-shim-runsc-v1", "versitygw"}
