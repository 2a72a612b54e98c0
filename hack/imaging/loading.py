"""Gives the images to the test cluster, only those that it does not have yet."""

import subprocess
from collections.abc import Sequence

from imaging.builds import Built
from imaging.staging import REPOSITORY
from testbed import places
from testbed.commands import run
from testbed.failure import TestbedError

_LOAD_SECONDS = 300


def load_all(images: Sequence[Built]) -> None:
    """Import what is missing; the moving name counts as missing when it means another build."""
    present = _present()
    missing = [image for image in images if not _is_there(image, present)]
    if missing:
        loader = [str(REPOSITORY / "hack" / "cluster"), "load"]
        run([*loader, *(str(image.archive) for image in missing)], timeout=_LOAD_SECONDS)
    print(f"loaded {len(missing)}, present {len(images) - len(missing)} images", flush=True)


def _is_there(image: Built, present: dict[str, str]) -> bool:
    return image.reference in present and present.get(image.moving) == present[image.reference]


def _present() -> dict[str, str]:
    """The images that containerd has, by name, with their digests."""
    ctr = [str(places.cache() / "bin" / "ctr"), "-a", str(places.containerd_socket()), "-n", "k8s.io"]
    try:
        said = run([*ctr, "images", "ls"], timeout=60)
    except (TestbedError, subprocess.SubprocessError) as error:
        raise TestbedError(f"the cluster does not answer, run `hack/cluster up`: {error}") from error
    rows = [line.split() for line in said.splitlines()[1:]]
    return {row[0]: next(cell for cell in row if cell.startswith("sha256:")) for row in rows if row}
