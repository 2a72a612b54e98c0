"""What the container runtimes demand of a pod, and how each is told apart from inside.

A runtime is known by the handler of its RuntimeClass. One that cannot be told apart from inside is not offered: what
cannot be verified is refused, never assumed.
"""

from enum import StrEnum

_SHARED_KERNEL = frozenset({"runc", "crun", "youki"})
_GVISOR_PREFIXES = ("runsc", "gvisor")
_GVISOR_BANNER = "gvisor"


class Runtime(StrEnum):
    """A kind of isolation that evidence can tell apart."""

    SHARED_KERNEL = "shared kernel"
    GVISOR = "gVisor"


def runtime_of(handler: str) -> Runtime | None:
    """The kind behind a handler's name; None for one whose kind evidence could not tell apart."""
    if handler in _SHARED_KERNEL:
        return Runtime.SHARED_KERNEL
    if handler.startswith(_GVISOR_PREFIXES):
        return Runtime.GVISOR
    return None


def banner_fits(runtime: Runtime, version: str) -> bool:
    """Whether /proc/version as a keeper read it is that of the runtime. gVisor must say so itself; silence is none."""
    says_gvisor = _GVISOR_BANNER in version.lower()
    match runtime:
        case Runtime.GVISOR:
            return says_gvisor
        case Runtime.SHARED_KERNEL:
            return bool(version.strip()) and not says_gvisor


def runtime_demands(runtime_class: str) -> dict[str, str]:
    """The part of a pod's spec that pins the runtime.

    gVisor needs nothing beyond the pin, and the pin is never left out: a cluster's default may change under us.
    """
    return {"runtimeClassName": runtime_class}
