"""The machine's kernel settings that the kubelet changes without asking: remembered by `up`, put back by `down`."""

import json
from pathlib import Path

from testbed import places

_CHANGED_BY_KUBELET = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
_ROOT = Path("/proc/sys")


def _file() -> Path:
    return places.state() / "kernel-settings.json"


def remember() -> None:
    """Write down the settings as they were before the first kubelet of this cluster."""
    if _file().exists():
        return
    partial = _file().with_suffix(".partial")
    partial.write_text(json.dumps({name: (_ROOT / name).read_text().strip() for name in _CHANGED_BY_KUBELET}))
    partial.rename(_file())


def restore() -> None:
    """Put the settings back."""
    if not _file().exists():
        return
    for name, value in json.loads(_file().read_text()).items():
        if (_ROOT / name).read_text().strip() != value:
            (_ROOT / name).write_text(value)
