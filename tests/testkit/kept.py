"""A session of the real cluster at work, and what its workspace held: what a fault left of it is judged by that."""

from installation.client import Object
from testkit.cluster_client import Session
from testkit.fault_matrix import Fault

WORK = "mkdir deep; head -c 300000 /dev/urandom > deep/work; ln -s deep/work link; echo small > file; chmod 400 file"
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit() if os.path.exists("tame") else None)
while True:
    time.sleep(1)
"""
"""An agent that does not end before its grace is over, unless its workspace holds a file `tame`."""
REPLACED_SECONDS = 90


class Kept:
    """What was there, and in which pod."""

    def __init__(self, session: Session, work: str = WORK) -> None:
        self.session = session
        session.wait_phase("Ready")
        if work:
            session.shell(work)
        self.remember()

    def remember(self) -> None:
        """What is there now is what counts."""
        self.walk: list[Object] = self.session.walk()
        self.pod = self.session.pod_uid()

    def wait_replaced(self) -> None:
        """Wait until the session is Ready in another pod."""
        first = self.pod

        def holds(status: Object) -> bool:
            return status.get("phase") == "Ready" and status.get("podUid") not in (None, first)

        self.session.wait("Ready in another pod", holds, REPLACED_SECONDS)

    def judge(self, fault: Fault) -> None:
        """Compare with what is there now."""
        fault.judge_workspace(self.walk, self.session.walk(), is_same_pod=self.session.pod_uid() == self.pod)
