"""`sandhold-operator ask`: a real operator on a real API server answers what it would do, and does not do it."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandhold import names
from testkit.api_server import GROUP, ApiServer
from testkit.cli_place import ROOT, Place, eventually
from testkit.ports import free_ports

SECRET = "s3cr3t-value"
START_SECONDS = 60
_COMMAND = (sys.executable, "-c", "from sandhold.handlers.command import main; main()")


class Operator:
    """An operator process, and questions to it."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.socket = place.home / f"{name}.sock"
        self.log = place.home / f"{name}.log"
        self._environment = place.environment(
            SANDHOLD_NAMESPACE=place.namespace,
            SANDHOLD_POD_NAME=name,
            SANDHOLD_KEEPER_IMAGE="example.invalid/keeper:1",
            SANDHOLD_BACKENDS=str(_backends(place)),
            SANDHOLD_QUESTIONS_SOCKET=str(self.socket),
            **dict(zip(("SANDHOLD_HEALTH_PORT", "SANDHOLD_METRICS_PORT"), map(str, free_ports(2)), strict=True)),
        )
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                _COMMAND, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        eventually(lambda: self.answers() is not None, "it answers", START_SECONDS)

    def answers(self) -> dict[str, Any] | None:
        """Which installation is its, without a second process: for who asks again and again; None when it is not up."""
        try:
            return _raw(self.socket, b'{"verb":"installation"}\n')
        except (OSError, json.JSONDecodeError):
            return None

    def leads(self) -> bool:
        answer = self.answers()
        return answer is not None and bool(answer["ok"])

    def ask(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*_COMMAND, "ask", "--socket", str(self.socket), *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if answer["ok"] else 1), done.stderr
        return answer

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def tell(self) -> None:
        """Its log, which pytest shows when the test has failed."""
        print(self.log.read_text()[-3000:])  # noqa: T201


def _backends(place: Place) -> Path:
    path = place.home / "sandbox-backends.json"
    tier = {"runtime_class": "runc", "egress": {"cni": {}}, "default_image": "example.invalid/agent:1"}
    path.write_text(json.dumps({"installation_id": place.namespace, "default_tier": "runc", "tiers": {"runc": tier}}))
    return path


@pytest.fixture
def operator(place: Place) -> Iterator[Operator]:
    """One that may be ended."""
    made = Operator(place, "first")
    yield made
    made.kill()
    made.tell()


@pytest.fixture(scope="module")
def one_for_all(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    place = Place(api_server, api_server.add_namespace("cli-leader"), tmp_path_factory.mktemp("leader"))
    made = Operator(place, "first")
    yield made
    made.kill()


@pytest.fixture
def leader(one_for_all: Operator) -> Iterator[Operator]:
    """One that leads, for tests that leave it as it was."""
    eventually(one_for_all.leads, "it leads")
    yield one_for_all
    one_for_all.tell()


def _everything(place: Place) -> dict[str, str]:
    """What is stored in the namespace, by name and version; the election's Lease apart."""
    stored = {}
    for path in (f"{GROUP}/namespaces/{place.namespace}/sandboxsessions", f"/api/v1/namespaces/{place.namespace}/pods"):
        for item in place.server.request("GET", path)["items"]:
            stored[f"{path}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return stored


def test_the_leader_says_what_it_would_do_and_does_not_do_it(leader: Operator) -> None:
    place = leader.place
    assert leader.ask("installation")["installation"] == place.namespace
    place.session(env=[{"name": "TOKEN", "value": SECRET}])
    target = f"sandboxsession/{place.namespace}/quill"
    eventually(lambda: place.found().get("status", {}).get("phase") == "Failed", "it was looked at")
    eventually(lambda: leader.ask("plan", target)["settled"], "nothing is left to do")
    before = _everything(place)
    answer = leader.ask("plan", target)
    assert answer["steps"] == []
    assert answer["observed"]["sandbox"] == "absent"
    assert answer["plan"] == ({} if answer["wakeAfterSeconds"] is None else {"wakeAfter": answer["wakeAfterSeconds"]})
    assert _everything(place) == before
    assert SECRET not in json.dumps(answer)

    assert leader.ask("plan", f"sbs/{place.namespace}/nobody")["code"] == "not_found"


def test_the_socket_is_for_its_owner_alone_and_goes_with_the_operator(operator: Operator) -> None:
    mode = operator.socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert operator.end() == 0
    assert not operator.socket.exists()
    assert operator.ask("installation")["code"] == "unavailable"


def test_what_a_killed_operator_left_is_no_obstacle(operator: Operator) -> None:
    operator.kill()
    assert operator.socket.exists()
    operator.start()
    assert operator.ask("installation").get("code") != "unavailable"


def test_a_standby_says_who_leads(leader: Operator) -> None:
    second = Operator(leader.place, "second")
    try:
        answer = second.ask("plan", f"agentsandbox/{leader.place.namespace}/coder")
        assert (answer["code"], answer["leader"]) == ("standby", "first")
    finally:
        second.kill()


def test_wrong_questions_are_answered_and_leave_the_operator_as_it_was(leader: Operator) -> None:
    for question in (
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"verb":"plan"}\n',
        b'{"verb":"delete"}\n',
        b"x" * 9000 + b"\n",
    ):
        assert _raw(leader.socket, question)["code"] == "invalid"
    assert leader.ask("installation")["ok"]
    assert leader.process.poll() is None


def test_too_many_questions_at_once_are_turned_away(leader: Operator) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(4):
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(leader.socket))
        question = b'{"verb":"installation"}\n'
        eventually(lambda: _raw(leader.socket, question).get("code") == "busy", "a fifth is turned away")
    eventually(leader.leads, "and comes in again")


def _raw(path: Path, question: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        parts = []
        # Who is turned away is not heard to the end.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(question)
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                parts.append(part)
    answer: dict[str, Any] = json.loads(b"".join(parts))
    return answer


@pytest.mark.parametrize("target", ["quill", "sbs/quill", "pod/a/b", "sbs//b", "sbs/a/"])
def test_a_target_that_is_none_is_wrong_usage(target: str) -> None:
    done = subprocess.run(
        [*_COMMAND, "ask", "plan", target],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "KIND/NAMESPACE/NAME" in done.stderr


def test_the_operator_takes_no_other_words() -> None:
    done = subprocess.run([*_COMMAND, "run"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "unknown argument run" in done.stderr


def test_asking_loads_no_second_operator() -> None:
    heavy = {"kopf", "pydantic", "asyncio", "kubernetes_asyncio"}
    script = f"import sys; from sandhold.handlers import ask; print(sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert names.PATH_QUESTIONS.startswith("/tmp/")  # noqa: S108 - the emptyDir that the chart mounts
