"""The environment of an agent: the documented defaults, then the sandbox's list, then the session's.

Nothing of the image's or the cluster's own environment passes: init hands exactly this to the agent. The container
carries the same list, so that `kubectl exec` sees what the agent sees.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sandhold.api.pod import EnvVar

HOME = "/home/agent"
TEMPORARY = "/tmp"  # noqa: S108 - the path inside the pod, a volume of its own

DEFAULTS: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": HOME,
    "TMPDIR": TEMPORARY,
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "XDG_CONFIG_HOME": f"{HOME}/.config",
    "XDG_DATA_HOME": f"{HOME}/.local/share",
    "XDG_STATE_HOME": f"{HOME}/.local/state",
}
"""What an agent finds where neither sandbox nor session says otherwise."""


def agent_environment(sandbox: Sequence[EnvVar], session: Sequence[EnvVar]) -> dict[str, str]:
    """The whole environment; the session's value of a name wins over the sandbox's, and that over the default."""
    return {**DEFAULTS, **{item.name: item.value for item in (*sandbox, *session)}}


def container_environment(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same as a container's `env`. Kubernetes would expand `$(NAME)`; a doubled dollar is a literal one."""
    return [{"name": name, "value": value.replace("$", "$$")} for name, value in environment.items()]
