"""A workspace comes back bit for bit, under both runtimes, judged by a walker that is not the keeper."""

import pytest

from installation import bucket
from testkit.cluster_client import Field, folder_of, sha256

# Everything that is easily lost: modes, links of both kinds, empty folders, times, names in any bytes, holes, a venv.
TREE = r"""
import os, subprocess, sys
os.chdir("/workspace")
os.makedirs("a/b/c"); os.makedirs("empty/inner"); os.mkdir("closed", 0o700)
def write(name, content, mode=0o644):
    with open(name, "wb") as file:
        file.write(content)
    os.chmod(name, mode)
write("a/plain.txt", b"plain\n")
write("a/tool", b"#!/bin/sh\nexit 0\n", 0o755)
write("a/b/private", b"secret\n", 0o600)
write("a/b/readonly", b"fixed\n", 0o444)
write("empty-file", b"")
write("large.bin", os.urandom(3 << 20))
write(b"odd-\xff\xfe-name", b"bytes\n")
write("with\nnewline", b"newline\n")
write("uml\u00e4ut", b"utf-8\n")
write("n" * 250, b"long name\n")
deep = "/".join(["d" * 60] * 6)
os.makedirs(deep); write(deep + "/leaf", b"deep\n")
os.link("a/plain.txt", "a/b/c/same"); os.link("a/plain.txt", "a-third-name")
os.symlink("a/plain.txt", "relative-link"); os.symlink("/usr/bin/python3", "absolute-link")
os.symlink("nowhere", "dangling-link"); os.symlink(b"\xff\xfe", b"odd-\xff-link"); os.symlink("a/b", "folder-link")
with open("sparse.bin", "wb") as file:
    file.truncate(128 << 20); file.seek(64 << 20); file.write(b"island")
os.chmod("a/b/c", 0o750); os.chmod("empty", 0o1777)
subprocess.run([sys.executable, "-m", "venv", "venv"], check=True)
site = subprocess.run(["venv/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                      check=True, capture_output=True, text=True).stdout.strip()
write(site + "/own.py", b"answer = 42\n")
os.utime("a/tool", ns=(1, 1_234_567_890_123_456_789)); os.utime("empty-file", ns=(0, 1))
os.utime("relative-link", ns=(5, 987_654_321_987_654_321), follow_symlinks=False)
os.utime("empty/inner", ns=(7, 1_111_111_111_111_111_111))
"""


@pytest.mark.long
@pytest.mark.parametrize("tier", ["runc", "gvisor"])
def test_a_workspace_comes_back_bit_for_bit_in_another_pod(field: Field, tier: str) -> None:
    field.sandbox("coder", tier, workspace={"size": "512Mi"})
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    assert ("gvisor" in session.execute("cat", "/proc/version").lower()) == (tier == "gvisor")
    session.python(TREE)
    before, first = session.walk(), session.pod_uid()
    assert len(before) > 800, "the venv alone has more entries"
    assert session.allocated("sparse.bin") < 1 << 20

    snapshot = session.suspend()
    assert field.pods() == []
    assert sha256(bucket.read(snapshot["key"])) == snapshot["digest"]

    session.resume()
    assert session.pod_uid() != first
    assert session.status()["recovery"] == "Restored"
    assert session.allocated("sparse.bin") < 1 << 20
    after = session.walk()
    assert [entry for entry in before if entry not in after] == []
    assert [entry for entry in after if entry not in before] == []
    assert session.shell("venv/bin/python -c 'import own; print(own.answer)'").strip() == "42"
    assert session.shell("venv/bin/pip --version").startswith("pip ")

    session.delete()
    session.wait_gone()
    assert field.pods() == []
    field.cluster.delete("SandboxSnapshot", field.namespace, snapshot["name"])
    kept = bucket.sizes(folder_of(snapshot["key"]))
    assert snapshot["key"] in kept
    assert len([key for key in kept if "/layers/" not in key]) >= 3, "two archives and at least the second's fence"


def test_a_session_made_anew_under_its_name_finds_its_workspace(field: Field) -> None:
    field.sandbox("coder")
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    session.shell("echo kept > kept")
    session.delete()
    session.wait_gone()
    session = field.session("quill", "coder")
    session.wait_phase("Ready")
    assert session.shell("cat kept").strip() == "kept"
    assert session.status()["recovery"] == "Restored"
