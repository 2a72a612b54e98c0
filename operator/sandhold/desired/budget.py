"""The PodDisruptionBudget of an AgentSandbox: no eviction of its pods is ever allowed, so that drains wait.

A drain evicts with whatever grace it likes, and an archive may need longer; a cordon, which comes first, begins the
orderly stop, and the pod that is then gone no longer holds the drain up. A budget binds evictions alone: deletions,
ours among them, and the kubelet's own evictions for pressure do not ask it.
"""

from collections.abc import Mapping
from typing import Any

from sandhold.api.sandbox import AgentSandbox
from sandhold.desired import ownership
from sandhold.desired.world import KubeObject

API_VERSION = "policy/v1"
KIND = "PodDisruptionBudget"
MORE_THAN_THERE_ARE = 2**31 - 1
"""A whole number, for which Kubernetes counts the pods that the selector finds, whoever controls them."""


def disruption_budget(installation_id: str, sandbox: AgentSandbox) -> dict[str, Any]:
    """The budget as it is applied."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": ownership.sandbox_child(installation_id, sandbox),
        "spec": {
            "minAvailable": MORE_THAN_THERE_ARE,
            "selector": {"matchLabels": ownership.sandbox_selector(installation_id, sandbox)},
            # Said although it is the default: with the other policy a pod whose gate is shut could be evicted.
            "unhealthyPodEvictionPolicy": "IfHealthyBudget",
        },
    }


def holds(budget: KubeObject, wanted: Mapping[str, Any]) -> bool:
    """Whether the budget that the API server holds says all that it should, and stays."""
    spec = budget.get("spec") or {}
    is_same = all(spec.get(key) == value for key, value in wanted["spec"].items())
    return is_same and not ownership.metadata_of(budget).get("deletionTimestamp")
