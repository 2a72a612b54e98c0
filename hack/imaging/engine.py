"""Turns a staged context into an image archive: by docker where an engine answers, else by buildah.

Buildah gets a storage of its own for each build, which goes away with it: a killed build leaves one folder under a name
that the next one sweeps, and nothing of it is ever seen by the machine's own container tools.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Protocol

from imaging import debian
from imaging.staging import REPOSITORY
from testbed.commands import run

_BUILD_SECONDS = 600
_ASK_SECONDS = 20


class Engine(Protocol):
    """What builds one target of the Dockerfile into an archive that holds the image under the given names."""

    def base_key(self) -> str:
        """What tells one base from another."""

    def build(self, target: str, context: Path, names: list[str], archive: Path) -> None:
        """Build and save; `target` has a base or not as the Dockerfile says."""


def choose() -> Engine:
    """Docker if its daemon answers; the client alone builds nothing."""
    if shutil.which("docker"):
        try:
            asked = subprocess.run(["docker", "info"], capture_output=True, timeout=_ASK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Buildah()
        if asked.returncode == 0:
            return Docker()
    return Buildah()


class Docker:
    """The engine of most people's machines; the base is the Dockerfile's default."""

    def base_key(self) -> str:
        """The default stands in the Dockerfile, which is part of every key anyway."""
        return "default"

    def build(self, target: str, context: Path, names: list[str], archive: Path) -> None:
        """Build with buildx, save with the names."""
        tags = [f"--tag={name}" for name in names]
        dockerfile = ["--file", str(REPOSITORY / "Dockerfile"), "--target", target]
        run(
            ["docker", "buildx", "build", "--quiet", "--load", *dockerfile, *tags, str(context)], timeout=_BUILD_SECONDS
        )
        run(["docker", "save", "--output", str(archive), *names], timeout=_BUILD_SECONDS)


class Buildah:
    """Needs no daemon; the base is made from Debian packages."""

    def __init__(self) -> None:
        self._bases: dict[Path, Path] = {}

    def base_key(self) -> str:
        """The base is what its list of packages and its suite say."""
        return debian.key()

    def build(self, target: str, context: Path, names: list[str], archive: Path) -> None:
        """Build with chroot isolation (no user namespaces, no runtime needed) and push into an archive."""
        work = context.parent
        arguments = ["--isolation", "chroot", "--quiet", "--file", str(REPOSITORY / "Dockerfile"), "--target", target]
        if target != "sandhold-keeper":
            arguments += ["--build-arg", f"BASE=oci-archive:{self._base(archive.parents[1])}"]
        self._run(work, "build", *arguments, "--tag", names[0], str(context))
        single = work / "image.tar"
        self._run(work, "push", "--quiet", names[0], f"docker-archive:{single}:{names[0]}")
        _named(single, names, archive)

    def _base(self, cache: Path) -> Path:
        """The base as an image; made from the cached file system once."""
        final = cache / "images" / f"base-{self.base_key()}.tar"
        if final.exists():
            return final
        filesystem = debian.filesystem(cache)
        work = cache / "images" / ".unfinished-base"
        shutil.rmtree(work, ignore_errors=True)
        context = work / "context"
        context.mkdir(parents=True)
        os.link(filesystem, context / "base.tar")
        (work / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        name = "localhost/base:1"
        arguments = ["--isolation", "chroot", "--quiet", "--file", str(work / "Dockerfile")]
        self._run(work, "build", *arguments, "--tag", name, str(context))
        self._run(work, "push", "--quiet", name, f"oci-archive:{work / 'base.tar'}:{name}")
        (work / "base.tar").rename(final)
        filesystem.unlink()
        shutil.rmtree(work)
        return final

    def _run(self, work: Path, *arguments: str) -> None:
        storage = ["--root", str(work / "storage"), "--runroot", str(work / "run"), "--storage-driver", "vfs"]
        run(["nice", "buildah", *storage, *arguments], timeout=_BUILD_SECONDS)


def _named(source: Path, names: list[str], target: Path) -> None:
    """Copy a docker archive with these names in its manifest: buildah writes one name only."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = old.extractfile(member)
            if member.name == "manifest.json" and content:
                manifest = json.load(content)
                manifest[0]["RepoTags"] = names
                encoded = json.dumps(manifest).encode()
                member.size = len(encoded)
                new.addfile(member, io.BytesIO(encoded))
            else:
                new.addfile(member, content)
