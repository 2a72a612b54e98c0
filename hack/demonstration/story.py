"""The main job: a session under gVisor keeps its workspace through a stop and a new start, and its archive for good."""

import hashlib
import json
import shlex

import yaml

from demonstration import leftovers
from demonstration.stage import Stage
from imaging.staging import REPOSITORY
from installation import bucket, client
from installation.client import Cluster, Object
from installation.deploying import INSTALLATION
from installation.deploying import NAMESPACE as SYSTEM

NAMESPACE = "sandhold-demo"
WALKER = REPOSITORY / "hack" / "installation" / "walker.py"
_START_SECONDS = 120
_STOP_SECONDS = 120
_SAME_IN_ALL = frozenset({"time", "level", "logger", "kind", "namespace", "object"})

# What an agent leaves behind, and what is easily lost on the way: modes, links, an interpreter's folder, odd names.
WORK = r"""
set -eu
echo "the answer is 42" > notes/result.txt
printf '#!/bin/sh\necho "run as $(id -u)"\n' > run.sh && chmod 0750 run.sh
ln -s notes/result.txt latest
ln notes/result.txt notes/same.txt
mkdir -p empty/folder && chmod 0711 empty
printf 'x' > "$(printf 'odd-\377-name')"
truncate -s 64M sparse.bin && printf 'end' >> sparse.bin
touch -d '2001-02-03 04:05:06.123456789' notes/result.txt
python3 -m venv --without-pip venv
venv/bin/python -c 'import sys; print("venv of", sys.version.split()[0])'
ls -la
"""


class Story:
    """One run, with a session of its own name: archives of earlier runs are theirs."""

    def __init__(self, stage: Stage, cluster: Cluster, session: str) -> None:
        self._stage = stage
        self._cluster = cluster
        self._session = session

    def tell(self) -> None:
        """All of it, in order."""
        stage = self._stage
        with stage.step("Apply an AgentSandbox and a SandboxSession, wait until it is Ready"):
            self._apply()
            self._wait("Ready", _START_SECONDS)
        first = self._pod()
        with stage.step("Look inside: a gVisor kernel, not the node's"):
            self._look_inside(first)
        with stage.step("Work: files, links, an executable, a venv"):
            before = self._work(first)
        with stage.step("Suspend: the archive is stored, only then the pod goes"):
            archive = self._suspend(first)
        with stage.step("Resume: the same files in a new pod"):
            self._resume(first, before)
        with stage.step("Delete the session: the archive stays"):
            self._delete(archive)
        with stage.step("An orphan is collected; WebUI pods and another installation's pod stay"):
            leftovers.tell(stage, self._cluster, NAMESPACE, INSTALLATION)
        with stage.step("What the operator said of it"):
            self._log()

    def _apply(self) -> None:
        sandbox = yaml.safe_load((REPOSITORY / "examples" / "agentsandbox.yaml").read_text())
        session = yaml.safe_load((REPOSITORY / "examples" / "sandboxsession.yaml").read_text())
        session["metadata"]["name"] = self._session
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        documents = yaml.safe_dump_all(
            [namespace, *(d | {"metadata": d["metadata"] | {"namespace": NAMESPACE}} for d in (sandbox, session))]
        )
        self._stage.kubectl(self._cluster, "apply", "-f", "-", stdin=documents)

    def _wait(self, condition: str, seconds: int) -> None:
        target = f"sandboxsession/{self._session}"
        words = ["wait", f"--for=condition={condition}", "-n", NAMESPACE, target, f"--timeout={seconds}s"]
        self._stage.kubectl(self._cluster, *words, timeout=seconds + 10)
        self._stage.kubectl(self._cluster, "get", "sandhold,pods", "-n", NAMESPACE, "-o", "wide")

    def _found(self) -> Object:
        found = self._cluster.get("SandboxSession", NAMESPACE, self._session)
        self._stage_requires(found is not None, f"the session {self._session} is there")
        return found or {}

    def _stage_requires(self, holds: bool, text: str) -> None:  # noqa: FBT001 - a claim that is not worth a line
        if not holds:
            self._stage.claim(text, holds=False)

    def _pod(self) -> Object:
        status = self._found()["status"]
        pod = self._cluster.get("Pod", NAMESPACE, status["podName"])
        self._stage_requires(pod is not None, f"the pod {status['podName']} is there")
        return pod or {}

    def _execute(self, pod: Object, script: str) -> str:
        name = pod["metadata"]["name"]
        self._stage.say(f"$ kubectl exec -n {NAMESPACE} {name} -c agent -- sh -c '…'")
        return self._cluster.execute(NAMESPACE, name, "sh", "-c", script)

    def _walk(self, pod: Object) -> list[str]:
        script = f"python3 - {shlex.quote('/workspace')}"
        said = self._cluster.execute(NAMESPACE, pod["metadata"]["name"], "sh", "-c", script, stdin=WALKER.read_text())
        return said.splitlines()

    def _look_inside(self, pod: Object) -> None:
        banner = self._execute(pod, "cat /proc/version; dmesg 2>/dev/null | head -n 3")
        self._stage.show(banner)
        self._stage.claim("/proc/version is gVisor's", holds="gvisor" in banner.lower(), seen=banner)
        runtime = pod["spec"].get("runtimeClassName")
        self._stage.claim("the pod is pinned to the RuntimeClass gvisor", holds=runtime == "gvisor", seen=runtime)
        content = self._execute(pod, "cat AGENTS.md")
        self._stage.claim("the entries of the sandbox are there", holds="survives stops" in content, seen=content)

    def _work(self, pod: Object) -> list[str]:
        self._stage.show(self._execute(pod, WORK))
        walked = self._walk(pod)
        self._stage.say(f"  a walker of our own found {len(walked)} files, folders and links")
        return walked

    def _set_mode(self, mode: str) -> None:
        change = json.dumps({"spec": {"operatingMode": mode}})
        words = ["patch", "sandboxsession", self._session, "-n", NAMESPACE, "--type=merge", "-p", change]
        self._stage.kubectl(self._cluster, *words)

    def _suspend(self, pod: Object) -> str:
        self._set_mode("Suspended")
        client.until(
            "the session is Suspended",
            lambda: self._found()["status"].get("phase") == "Suspended",
            seconds=_STOP_SECONDS,
        )
        name = pod["metadata"]["name"]
        client.until(
            "the pod is gone", lambda: self._cluster.get("Pod", NAMESPACE, name) is None, seconds=_STOP_SECONDS
        )
        self._stage.kubectl(self._cluster, "get", "sandhold,pods", "-n", NAMESPACE)
        snapshot = self._found()["status"]["snapshot"]
        key: str = snapshot["key"]
        self._stage.say(f"the object store, below {key.rpartition('/')[0]}:")
        for each, size in bucket.sizes(key.rpartition("/")[0]).items():
            self._stage.say(f"  {size:>12}  {each}")
        manifest = bucket.read(key)
        self._stage.say(f"manifest: {manifest.splitlines()[0].decode()[:600]}")
        digest = hashlib.sha256(manifest).hexdigest()
        self._stage.claim(
            "the stored manifest is the one that status names", holds=snapshot["digest"] == digest, seen=snapshot
        )
        return key

    def _resume(self, first: Object, before: list[str]) -> None:
        self._set_mode("Running")
        self._wait("Ready", _START_SECONDS)
        pod = self._pod()
        uids = [each["metadata"]["uid"] for each in (first, pod)]
        self._stage.claim(f"another pod: {uids[0]} then, {uids[1]} now", holds=uids[0] != uids[1])
        recovery = self._found()["status"].get("recovery")
        self._stage.claim("status says that the workspace was restored", holds=recovery == "Restored", seen=recovery)
        after = self._walk(pod)
        differing = sorted(set(before) ^ set(after))
        self._stage.claim(
            f"all {len(before)} entries are the same, in names, modes, times, links and content",
            holds=before == after, seen=differing[:6],
        )  # fmt: skip
        said = self._execute(pod, "cat latest && ./run.sh && venv/bin/python -c 'print(6 * 7)'")
        self._stage.show(said)
        self._stage.claim("the script and the venv still run", holds=said.split()[-1] == "42", seen=said)

    def _delete(self, archive: str) -> None:
        words = ["delete", "sandboxsession", self._session, "-n", NAMESPACE, f"--timeout={_STOP_SECONDS}s"]
        self._stage.kubectl(self._cluster, *words, timeout=_STOP_SECONDS + 10)
        gone = self._cluster.get("SandboxSession", NAMESPACE, self._session) is None
        self._stage.claim("the session is gone", holds=gone)
        client.until("no pod of it is left", lambda: not self._own_pods(), seconds=_STOP_SECONDS)
        self._stage.kubectl(self._cluster, "get", "sandhold,pods", "-n", NAMESPACE)
        kept = bucket.sizes(archive.rpartition("/")[0])
        self._stage.claim(
            f"{len(kept)} objects of it are in the store, the first archive too", holds=archive in kept, seen=kept
        )

    def _own_pods(self) -> list[str]:
        pods = [pod["metadata"]["name"] for pod in self._cluster.list("Pod", NAMESPACE)]
        return [name for name in pods if name.startswith(self._session)]

    def _log(self) -> None:
        said = self._cluster.kubectl("logs", "-n", SYSTEM, "deployment/sandhold-operator", "--tail=2000")
        own = [_short(line) for line in said.splitlines() if self._session in line]
        self._stage.show("\n".join(own))
        self._stage.claim("the operator's log tells of this session", holds=bool(own))


def _short(line: str) -> str:
    """A line of the operator's log without what is the same in all of them."""
    fields = json.loads(line)
    told = {key: value for key, value in fields.items() if key not in _SAME_IN_ALL}
    return f"{fields.get('time', '')} " + " ".join(f"{key}={value}" for key, value in told.items())
