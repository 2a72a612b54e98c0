"""A ConfigMap or Secret as the kubelet shows it to a container: versions in folders, and a link to the one that counts.

The kubelet's writer makes a new version beside the old one, turns the link `..data` over to it in one step, and then
removes the old one. What Kubernetes itself checks (names of keys, sizes) is not checked here, so that a test can show
what would come of it.
"""

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

_versions = count(1)
DATA = "..data"


def show(volume: Path, keys: Mapping[str, bytes]) -> None:
    """Make this what the volume holds, in the order in which the kubelet does it."""
    volume.mkdir(parents=True, exist_ok=True)
    version = volume / f"..2026_01_01_00_00_00.{next(_versions)}"
    version.mkdir()
    for key, content in keys.items():
        (version / key).write_bytes(content)
        (version / key).chmod(0o444)
    before = version_of(volume)
    turn_over(volume, version.name)
    for key in keys:
        if not (volume / key).is_symlink():
            (volume / key).symlink_to(f"{DATA}/{key}")
    for old in volume.iterdir():
        if not old.name.startswith("..") and old.name not in keys:
            old.unlink()
    if before is not None:
        shutil.rmtree(volume / before)


def version_of(volume: Path) -> str | None:
    """The version that counts; None for a volume that was never written."""
    return str((volume / DATA).readlink()) if (volume / DATA).is_symlink() else None


def turn_over(volume: Path, target: str) -> None:
    """Let the link lead somewhere else, in one step."""
    temporary = volume / "..data_tmp"
    temporary.symlink_to(target)
    temporary.rename(volume / DATA)
