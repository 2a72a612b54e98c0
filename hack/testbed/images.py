"""Images of single static programs (pause, CoreDNS), written as archives without any image tool."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from testbed import versions

PAUSE = f"sandhold.test/pause:{versions.PAUSE}"
COREDNS = f"sandhold.test/coredns:{versions.COREDNS}"


def archive(reference: str, program: Path, target: Path) -> None:
    """Write an image whose only file and entrypoint is this program, in the format that `docker save` writes."""
    layer = _tar({f"{program.name}": (program.read_bytes(), 0o755)})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "Env": ["PATH=/"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    encoded = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": (layer, 0o644),
        config_name: (encoded, 0o644),
        "manifest.json": (json.dumps(manifest).encode(), 0o644),
    }
    target.write_bytes(_tar(files))


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """A tar with no time or owner in it: the same program always makes the same image."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
