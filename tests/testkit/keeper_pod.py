"""What the in-pod binary sees of a sandbox pod, on this machine: its folders, a keeper process, an init process.

The real binary runs as it runs in a pod: the keeper as a plain process of the agent's uid, init as PID 1 of a pid
namespace of its own. Needs root for both; there is no network namespace here, so probes reach loopback only.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testkit.fake_mover import TOKEN, FakeMover
from testkit.keeper_binary import keeper_binary

AGENT_UID = 10001
PATIENCE = 20.0


def until(holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Look until something is true; fail, with what was waited for, when it is not in time."""
    deadline = time.monotonic() + patience
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"in {patience} s it did not come true: {what}")
        time.sleep(0.005)
    return value


async def eventually(holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """`until`, for tests whose mover has to go on meanwhile."""
    return await asyncio.to_thread(until, holds, what, patience)


def descendants(pid: int) -> list[int]:
    """Every process below one, each before those below it."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def state_of(pid: int) -> str:
    """What the kernel says that a process does: `T` is stopped, `Z` has ended, `D` waits in the kernel."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@dataclass
class KeeperPod:
    """Folders and processes of one pod. Leaving it ends every process and removes every file."""

    uid: int = AGENT_UID
    most_processes: int | None = None
    """Processes and threads that the pod's user may have on this machine: a limit like the kubelet's on a pod."""
    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sandhold-pod-")))
    keeper: subprocess.Popen[bytes] | None = None
    init: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.base.chmod(0o755)
        self.binary = self.base / "sandhold-keeper"
        shutil.copy(keeper_binary(), self.binary)
        self.gate, self.hints = self.base / "gate", self.base / "hints"
        self.private, self.workspace = self.base / "private", self.base / "workspace"
        self.podinfo, self.token = self.base / "podinfo", self.base / "token"
        self.sources = self.base / "sources"
        self.sources.mkdir()
        for folder in (self.gate, self.hints, self.private, self.workspace, self.podinfo):
            folder.mkdir()
            os.chown(folder, self.uid, self.uid)
        self.token.write_text(TOKEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop_init()
        self.stop_keeper()
        subprocess.run(["rm", "-rf", str(self.base)], check=True)

    @property
    def environment(self) -> dict[str, str]:
        """What moves the paths of PROTOCOL.md into this pod."""
        return {
            "SANDHOLD_GATE": str(self.gate),
            "SANDHOLD_HINTS": str(self.hints),
            "SANDHOLD_PRIVATE": str(self.private),
            "SANDHOLD_WORKSPACE": str(self.workspace),
            "SANDHOLD_TOKEN_FILE": str(self.token),
            "SANDHOLD_PODINFO": str(self.podinfo),
            "SANDHOLD_SOURCES": str(self.sources),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The binary, to its end, as the agent's user."""
        return subprocess.run(
            [str(self.binary), *arguments],
            env=self.environment,
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def point_at(self, mover: FakeMover) -> None:
        """Write the downward-API files."""
        (self.podinfo / "mover-address").write_text(f"127.0.0.1:{mover.port}")
        (self.podinfo / "mover-ca").write_bytes(mover.installation.authority.certificate_pem)

    def start_keeper(self) -> subprocess.Popen[bytes]:
        with (self.base / "keeper.log").open("ab") as log:
            self.keeper = subprocess.Popen(
                [*self._limit, str(self.binary), "keeper"],
                env=self.environment,
                user=self.uid,
                group=self.uid,
                extra_groups=[],
                stderr=log,
            )
        return self.keeper

    def stop_keeper(self, how: signal.Signals = signal.SIGKILL) -> int:
        """End the keeper; its exit code."""
        if self.keeper is None:
            return 0
        self.keeper.send_signal(how)
        code = self.keeper.wait(timeout=PATIENCE)
        self.keeper = None
        return code

    def has_ended(self) -> bool:
        """Whether the keeper has ended by itself, with success."""
        if self.keeper is None or self.keeper.poll() is None:
            return False
        assert self.keeper.returncode == 0, self.keeper_log()
        self.keeper = None
        return True

    def keeper_log(self) -> str:
        return (self.base / "keeper.log").read_text()

    def resident_kib(self) -> int:
        """Resident memory of the keeper."""
        assert self.keeper is not None
        status = Path(f"/proc/{self.keeper.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))

    def start_init(self, **more_environment: str) -> None:
        """Start init as PID 1 of a new pid namespace, from the gate, where `install` has to have put it."""
        assert self.run("install", str(self.gate / "init")).returncode == 0
        namespace = ["unshare", "--pid", "--fork", "--mount-proc", "--"]
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--"]
        with (self.base / "agent.log").open("ab") as output, (self.base / "init.log").open("ab") as errors:
            self.init = subprocess.Popen(
                [*namespace, *user, *self._limit, str(self.gate / "init")],
                env={**self.environment, **more_environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

    @property
    def _limit(self) -> list[str]:
        """A prefix of commands that sets the limit."""
        if self.most_processes is None:
            return []
        return ["prlimit", f"--nproc={self.most_processes}:{self.most_processes}", "--"]

    def stop_init(self) -> None:
        """As a container runtime ends a container: PID 1 is killed, and everything with it."""
        if self.init is None:
            return
        if self.init.poll() is None:
            # Not unshare: its --kill-child is lost with the change of user.
            os.kill(self.init_pid(), signal.SIGKILL)
            self.init.wait(timeout=PATIENCE)
        self.init = None

    def init_pid(self) -> int:
        """PID 1 of the container, as this machine numbers it."""
        assert self.init is not None
        children = Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children")
        return int(until(lambda: children.read_text().split(), "init runs")[0])

    def agents(self) -> list[int]:
        """Every process of the container but init, as this machine numbers them."""
        return descendants(self.init_pid())

    def hint(self) -> dict[str, Any]:
        """What init says of itself now."""
        try:
            content: dict[str, Any] = json.loads((self.hints / "init.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    def waiting_challenge(self, other_than: str = "") -> str:
        """The challenge of an init that waits at the gate."""
        until(lambda: self.hint().get("state") == "Waiting" and self.hint()["challenge"] != other_than, "init waits")
        return str(self.hint()["challenge"])

    def write_gate(self, name: str, content: Any) -> None:
        """Put a file where init looks, the way a keeper does."""
        unfinished = self.gate / f"{name}.unfinished"
        unfinished.write_text(json.dumps(content))
        unfinished.rename(self.gate / name)

    def open_gate(self, *argv: str, challenge: str | None = None, **env: str) -> None:
        """Write the word for the init that waits."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **env}
        self.write_gate(
            "word.json",
            {
                "challenge": challenge or self.waiting_challenge(),
                "argv": list(argv),
                "env": environment,
                "workingDir": str(self.workspace),
            },
        )

    def order_end(self, grace_seconds: int) -> None:
        self.write_gate(
            "orders.json", {"challenges": [self.hint()["challenge"]], "end": {"graceSeconds": grace_seconds}}
        )
