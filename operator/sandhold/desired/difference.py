"""Why a stored pod is not the one that was asked for, in words: what a webhook or a person added, removed or changed.

Asked-for values must be there unchanged. Beside them the API server's own defaults are accepted, and nothing that
adds a process, a mount, a capability, an identity or a host's namespace: those parts are compared whole.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sandhold import names
from sandhold.api.quantity import is_quantity, quantity_value
from sandhold.desired.world import KubeObject

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_AMOUNTS = frozenset({"limits", "requests"})
_SIZES = frozenset({"sizeLimit"})
# Keys that must not appear unless asked for. Whatever else is there is the API server's own, or harmless.
_CLOSED_POD_KEYS = frozenset(
    {
        *("hostAliases", "hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostnameOverride", "dnsConfig"),
        *("resourceClaims", "activeDeadlineSeconds", *_CONTAINER_LISTS),
    }
)
_CLOSED_CONTAINER_KEYS = frozenset(
    {
        *("args", "envFrom", "livenessProbe", "startupProbe", "stdin", "tty", "volumeDevices"),
        *("env", "volumeMounts", "lifecycle", "ports", "restartPolicyRules"),
    }
)
# Mappings in which every key counts, and lists whose items are told apart by a key and must be the same set.
_CLOSED_MAPPINGS = frozenset({"securityContext", "capabilities", "seccompProfile", "lifecycle", "ownerReferences"})
_KEYED = {"initContainers": "name", "containers": "name", "volumes": "name", "volumeMounts": "mountPath", "env": "name"}
_CLOSED_ITEMS = frozenset({"volumeMounts", "ports", "ownerReferences"})
_OPEN_LISTS = frozenset({"tolerations", "imagePullSecrets"})
# Asked-for zero values that the API server leaves out when it stores them.
_LEFT_OUT_WHEN_ZERO = frozenset({"hostNetwork", "hostPID", "hostIPC", "value"})
# Other values that do no harm: an admission plugin of Kubernetes' own that always pulls, and a default spelt out.
_HARMLESS = {"imagePullPolicy": "Always", "procMount": "Default"}
# Annotations through which runtimes and networks are told to isolate less.
_DANGEROUS_ANNOTATIONS = (
    *("dev.gvisor.", "io.katacontainers.", "io.containerd.", "io.kubernetes.cri", "cpu-load-balancing.crio.io"),
    *("container.apparmor.security.beta.", "container.seccomp.security.", "seccomp.security.alpha."),
    "k8s.v1.cni.cncf.io/networks",
)


def pod_differences(asked: Mapping[str, Any], stored: KubeObject) -> tuple[str, ...]:
    """Every difference that matters, as a path and what is there; empty when the stored pod is what was asked for."""
    metadata, wanted = stored.get("metadata") or {}, asked["metadata"]
    spec = stored.get("spec") or {}
    found = [
        *_labels(wanted["labels"], metadata.get("labels") or {}),
        *_annotations(wanted["annotations"], metadata.get("annotations") or {}),
        *_compare(wanted["ownerReferences"], metadata.get("ownerReferences"), "metadata.ownerReferences"),
        *_compare(asked["spec"], spec, "spec"),
        *_unasked(_CLOSED_POD_KEYS, asked["spec"], spec, "spec"),
    ]
    return tuple(found)


def is_outdated(asked: Mapping[str, Any], stored: KubeObject) -> bool:
    """Whether the stored pod was made from an older intent: no alteration, and no longer what is wanted."""
    annotations = (stored.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(names.ANNOTATION_INTENT) != asked["metadata"]["annotations"][names.ANNOTATION_INTENT])


def _labels(asked: Mapping[str, str], stored: Mapping[str, str]) -> Iterator[str]:
    for key, value in asked.items():
        if stored.get(key) != value:
            yield f"metadata.labels[{key}] was changed"


def _annotations(asked: Mapping[str, str], stored: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(stored):
        if key not in asked and key.startswith(_DANGEROUS_ANNOTATIONS):
            yield f"metadata.annotations[{key}] was added"


def _unasked(keys: Collection[str], asked: Mapping[str, Any], stored: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in sorted(keys):
        value = stored.get(key)
        if key not in asked and not _is_nothing(value) and _HARMLESS.get(key) != value:
            yield f"{path}.{key} was added"


def _is_nothing(value: Any) -> bool:
    """What counts as not being there. A number never does: user 0 is somebody."""
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def _compare(asked: Any, stored: Any, path: str, key: str = "") -> Iterator[str]:
    """Compare one value; `key` is the field that holds it, or the one that holds a list of it."""
    if isinstance(asked, Mapping):
        yield from _compare_mapping(asked, stored, path, key)
    elif isinstance(asked, list):
        yield from _compare_list(asked, stored, path, path.rpartition(".")[2])
    elif not _same(asked, stored, key):
        yield f"{path} was changed"


def _compare_mapping(asked: Mapping[str, Any], stored: Any, path: str, key: str) -> Iterator[str]:
    if not isinstance(stored, Mapping):
        yield f"{path} was removed"
        return
    for name, value in asked.items():
        yield from _compare(value, stored.get(name), f"{path}.{name}", key if key in _AMOUNTS else name)
    if key in _CLOSED_MAPPINGS or key in _CLOSED_ITEMS:
        yield from _unasked(set(stored), asked, stored, path)


def _compare_list(asked: Sequence[Any], stored: Any, path: str, key: str) -> Iterator[str]:
    items = stored if isinstance(stored, list) else []
    if key in _KEYED:
        yield from _compare_keyed(asked, items, path, key)
    elif key in _OPEN_LISTS:
        if any(item not in items for item in asked):
            yield f"{path} lost an item"
    elif len(asked) != len(items):
        yield f"{path} has {'more' if len(items) > len(asked) else 'fewer'} items than were asked for"
    else:
        for index, (one, other) in enumerate(zip(asked, items, strict=True)):
            yield from _compare(one, other, f"{path}[{index}]", key)


def _compare_keyed(asked: Sequence[Any], items: Sequence[Any], path: str, key: str) -> Iterator[str]:
    by = _KEYED[key]
    there = {str(item.get(by)): item for item in items if isinstance(item, Mapping)}
    wanted = {item[by]: item for item in asked}
    if len(there) != len(items):
        yield f"{path} has items that cannot be told apart"
    yield from (f"{path}[{name}] was added" for name in there if name not in wanted)
    for name, item in wanted.items():
        place = f"{path}[{name}]"
        if name not in there:
            yield f"{place} was removed"
            continue
        yield from _compare(item, there[name], place, key)
        if key in _CONTAINER_LISTS:
            yield from _unasked(_CLOSED_CONTAINER_KEYS, item, there[name], place)


def _same(asked: Any, stored: Any, key: str) -> bool:
    if asked == stored:
        return type(asked) is type(stored)
    if stored is None:
        return key in _LEFT_OUT_WHEN_ZERO and not asked
    if key in _HARMLESS:
        return bool(_HARMLESS[key] == stored)
    if (key in _AMOUNTS or key in _SIZES) and isinstance(asked, str) and isinstance(stored, str):
        return is_quantity(asked) and is_quantity(stored) and _same_amount(asked, stored)
    return False


def _same_amount(asked: str, stored: str) -> bool:
    """The API server keeps thousandths of a resource, and rounds up what is finer."""
    wanted, kept = quantity_value(asked), quantity_value(stored)
    return kept in (wanted, Fraction(math.ceil(wanted * 1000), 1000))
