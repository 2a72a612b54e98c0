"""Which images exist and which must be built: finished archives in the cache, each under the digest of its inputs."""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from imaging import engine
from imaging.staging import IMAGES, Image, digest
from testbed.places import cache

# Builds of one image that stay: a change and its revert should not build twice, a month of changes not fill the disk.
KEPT = 3


@dataclass(frozen=True)
class Built:
    """A finished image: its two names (one that follows the tree, one that never moves) and the archive."""

    name: str
    reference: str
    moving: str
    archive: Path


def build_all() -> list[Built]:
    """Build what is missing and return all images, in the order of the Dockerfile's use."""
    began = time.monotonic()
    with _only_builder():
        _sweep_unfinished()
        builder = engine.choose()
        made = [_build(image, builder) for image in IMAGES]
    built = sum(new for _, new in made)
    print(f"built {built}, reused {len(made) - built} images in {time.monotonic() - began:.1f} s", flush=True)
    return [one for one, _ in made]


def directory() -> Path:
    """Where the archives are."""
    return cache() / "images"


@contextmanager
def _only_builder() -> Iterator[None]:
    """Hold the lock of the archives; the kernel lets go of it however this process ends."""
    directory().mkdir(parents=True, exist_ok=True)
    with (cache() / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep_unfinished() -> None:
    """Remove what killed builds left; holding the lock means that no live build owns any of it."""
    for left in [*directory().glob(".unfinished-*"), *(cache() / "wheels").glob(".unfinished-*")]:
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def _build(image: Image, builder: engine.Engine) -> tuple[Built, bool]:
    """Stage, and build unless an archive of the same inputs is there; says whether it was built."""
    work = directory() / f".unfinished-{image.name}"
    context = work / "context"
    context.mkdir(parents=True)
    image.stage(context)
    key = digest(image, context, builder.base_key())
    found = Built(
        name=image.name,
        reference=f"localhost/{image.name}:dev-{key}",
        moving=f"localhost/{image.name}:dev",
        archive=directory() / f"{image.name}-{key}.tar",
    )
    new = not found.archive.exists()
    if new:
        began = time.monotonic()
        image.finish(context, cache())
        partial = directory() / f".unfinished-{image.name}.tar"
        builder.build(image.name, context, [found.reference, found.moving], partial)
        partial.rename(found.archive)
        print(f"  {image.name}: built in {time.monotonic() - began:.1f} s", flush=True)
        _prune(image.name)
    shutil.rmtree(work)
    return found, new


def _prune(name: str) -> None:
    """Keep the newest archives of this image."""
    pattern = f"{name}-{'[0-9a-f]' * 12}.tar"
    archives = sorted(directory().glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[KEPT:]:
        old.unlink()
