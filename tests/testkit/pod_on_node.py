"""What the node sees of a pod, beside whatever runs in it: its volumes on the disk, and its processes.

For what cannot be asked inside: somebody who is frozen answers no exec, and a killed sandbox not at all.
"""

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from installation.client import Object
from installation.walker import describe
from testbed import places
from testkit.cluster_client import Session


@dataclass(frozen=True)
class PodOnNode:
    """One pod of a session, whatever becomes of the session."""

    uid: str

    @classmethod
    def of(cls, session: Session) -> Self:
        """The pod that a session has now."""
        return cls(session.pod_uid())

    def volume(self, name: str) -> Path:
        """The folder of one of its own volumes."""
        return places.state() / "kubelet" / "pods" / self.uid / "volumes" / "kubernetes.io~empty-dir" / name

    def walk(self) -> list[Object]:
        """The workspace, in the words of the walker that is used inside too."""
        return describe(os.fsencode(self.volume("workspace")))

    def level(self) -> str:
        """The level that its size guard notes; empty before it has one."""
        return str(self._note("keeper", "guard.json").get("level", ""))

    def is_frozen(self) -> bool:
        """Whether init says that everybody is stopped."""
        return self._note("hints", "init.json").get("frozen") is True

    def is_thawed(self) -> bool:
        """Whether init does not say so."""
        return not self.is_frozen()

    def kill(self) -> int:
        """Kill all of its processes, keeper and agent alike; returns how many there were."""
        processes = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if self._holds(folder)]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # the first one of a gVisor sandbox takes the others with it
                os.kill(process, signal.SIGKILL)
        return len(processes)

    def _holds(self, process: Path) -> bool:
        try:
            return self.uid in (process / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _note(self, volume: str, name: str) -> Object:
        try:
            noted: Object = json.loads((self.volume(volume) / name).read_bytes())
        except FileNotFoundError:
            return {}
        return noted
