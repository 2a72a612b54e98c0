"""`sandhold` as a process on an API server: a namespace, what somebody puts into it, what the program says of it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from sandhold import names
from sandhold.cli import commands
from sandhold.cli.app import app
from testkit import connections
from testkit.api_server import GROUP, ApiServer

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-c", "from sandhold.cli.program import main; main()")


@dataclass
class Place:
    """A namespace, what somebody puts into it, and the command line that looks at it."""

    server: ApiServer
    namespace: str
    home: Path

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT / "operator"),
            "KUBECONFIG": str(self.server.kubeconfig),
            **more,
        }

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *words],
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`sandhold` with these words, in this namespace; in this process, which saves its start."""
        clean = {name: None for name in os.environ if name.startswith(("KUBE", "SANDHOLD"))}
        with patch.object(commands, "_awaited", self._awaited):
            done = CliRunner().invoke(app, ["-n", self.namespace, *words], env={**clean, **self.environment(**more)})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        assert "defect" not in done.stderr, done.stderr
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)

    async def _awaited(self, work: Awaitable[int | None]) -> int | None:
        """The end of a process closes what is open; the end of a loop does not."""
        try:
            return await work
        finally:
            await connections.closed(self.server.port)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def sandbox(self, name: str = "coder", **spec: Any) -> None:
        self._create("agentsandboxes", "AgentSandbox", name, {"image": "example.invalid/agent:1", **spec})

    def session(self, name: str = "quill", status: dict[str, Any] | None = None, **spec: Any) -> str:
        """A session, and what the operator says of it, if it has seen it; its UID."""
        made = self._create("sandboxsessions", "SandboxSession", name, {"sandboxRef": {"name": "coder"}, **spec})
        if status is not None:
            self.says(name, status)
        return str(made["metadata"]["uid"])

    def snapshot(self, name: str, session: str, **status: Any) -> None:
        self._create("sandboxsnapshots", "SandboxSnapshot", name, {"sessionRef": {"name": session}})
        self.server.request("PATCH", self._path("sandboxsnapshots", f"{name}/status"), {"status": status})

    def says(self, name: str, status: dict[str, Any]) -> None:
        """What the operator writes."""
        self.server.request("PATCH", self._path("sandboxsessions", f"{name}/status"), {"status": status})

    def found(self, name: str = "quill") -> dict[str, Any]:
        return self.server.request("GET", self._path("sandboxsessions", name))

    def change(self, change: dict[str, Any], name: str = "quill") -> dict[str, Any]:
        return self.server.request("PATCH", self._path("sandboxsessions", name), change)

    def delete(self, name: str = "quill") -> None:
        self.server.request("DELETE", self._path("sandboxsessions", name))

    def user(self, name: str, *rules: dict[str, Any]) -> str:
        """A kubeconfig of a service account with these rights in this namespace, and nowhere else."""
        core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
        scope = f"namespaces/{self.namespace}"
        self.server.request("POST", f"{core}/{scope}/serviceaccounts", {"metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.server.request("POST", f"{rbac}/{scope}/roles", {"metadata": {"name": name}, "rules": list(rules)})
        binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
        self.server.request("POST", f"{rbac}/{scope}/rolebindings", binding)
        token = self.server.request("POST", f"{core}/{scope}/serviceaccounts/{name}/token", {"spec": {}})
        config = json.loads(self.server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        path = self.home / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)

    def _create(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        document = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return self.server.request("POST", self._path(plural), document)

    def _path(self, plural: str, name: str = "") -> str:
        return f"{GROUP}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")


def eventually(holds: Callable[[], object], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Output:
    """What a running program writes to standard error, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)

    def has(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def end(self) -> str:
        """All of it, and the process's standard output before it; the process has ended."""
        assert self._process.stdout is not None
        output = self._process.stdout.read()
        self._process.wait(20)
        self._thread.join(20)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return output
