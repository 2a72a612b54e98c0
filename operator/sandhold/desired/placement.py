"""Nodes: whether a session has to leave the one that it is on, whether any could take its pod, whether a pod is gone.

A cordoned node is about to be drained: its sessions are stopped in order before somebody deletes their pods, and start
again where a node can take them. What is not known of nodes counts as their being well.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sandhold import names
from sandhold.desired.seen import SeenPod
from sandhold.desired.situation import OVERDUE_SECONDS, Situation
from sandhold.desired.world import Node, Present, Taint

UNHEARD_SECONDS = 15
"""A keeper whose mover went, or whom a new operator has not been told of, is heard of again within this."""
_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})
_CORDON = Taint(names.TAINT_CORDONED, "", "NoSchedule")


def is_gone(situation: Situation, pod: SeenPod) -> bool:
    """Whether no process of a pod can write any more, or its epoch has to fence it off because nobody will tell.

    A deleted pod on a node that is not heard of keeps its grace for nothing, unless its keeper still speaks: a node
    whose kubelet alone is dead runs an agent whose work can be archived.
    """
    if pod.is_dead or pod.overdue_for(situation.now) > OVERDUE_SECONDS:
        return True
    keeper = situation.world.keepers.get(pod.uid)
    is_silent = keeper is None or not keeper.connected
    return pod.deleted_for(situation.now) >= UNHEARD_SECONDS and is_silent and _is_unheard_of(situation, pod)


def must_leave(situation: Situation) -> bool:
    """Whether the node of the session is cordoned: that of its pod, or, of a pod that is gone, the one of status.

    A pod that is gone leaves a cordoned node only if no node can take another one; otherwise it is simply replaced.
    Pods that tolerate a cordon may be put there again, so they stay; so do those whose content ends with them.
    """
    pod = situation.pod
    if situation.pods is None or situation.sandbox is None or _tolerates_cordons(situation):
        return False
    if pod is not None and pod.deletion is None and not pod.is_dead:
        return situation.keeps_archives is not False and _is_cordoned(situation, pod.node)
    if pod is not None and not is_gone(situation, pod):
        return False
    node = pod.node if pod is not None else situation.status.node_name
    return _is_cordoned(situation, node) and not can_be_placed(situation)


def can_be_placed(situation: Situation) -> bool:
    """Whether some node takes new pods, and this session's among them, as far as labels and taints tell."""
    nodes, sandbox = situation.world.installation.nodes, situation.sandbox
    if not isinstance(nodes, Present) or sandbox is None:
        return False
    selector: Mapping[str, str] = sandbox.spec.pod.node_selector if sandbox.spec.pod is not None else {}
    tolerations = _tolerations(situation)
    return any(_takes(node, selector, tolerations) for node in nodes.value.values())


def _takes(node: Node, selector: Mapping[str, str], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    if node.is_cordoned or not node.is_ready or not selector.items() <= node.labels.items():
        return False
    return all(taint.effect not in _KEEPS_OFF or _tolerates(tolerations, taint) for taint in node.taints)


def _tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> bool:
    return any(_fits(each, taint) for each in tolerations)


def _fits(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """As the scheduler compares them: no effect means every effect, no key with `Exists` means every taint."""
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, is_any = toleration.get("key") or "", toleration.get("operator") == "Exists"
    if not key:
        return is_any
    return bool(key == taint.key and (is_any or (toleration.get("value") or "") == taint.value))


def _tolerations(situation: Situation) -> list[Mapping[str, Any]]:
    """Those of the pod that is there, else those that the next one is asked with."""
    if situation.pod is not None:
        return list((situation.pod.document.get("spec") or {}).get("tolerations") or ())
    placement = situation.sandbox.spec.pod if situation.sandbox is not None else None
    return [item.wire() for item in placement.tolerations] if placement is not None else []


def _tolerates_cordons(situation: Situation) -> bool:
    return _tolerates(_tolerations(situation), _CORDON)


def _is_cordoned(situation: Situation, name: str | None) -> bool:
    nodes = situation.world.installation.nodes
    node = nodes.value.get(name) if isinstance(nodes, Present) and name is not None else None
    return node is not None and node.is_cordoned


def _is_unheard_of(situation: Situation, pod: SeenPod) -> bool:
    nodes = situation.world.installation.nodes
    if not isinstance(nodes, Present) or pod.node is None:
        return False
    node = nodes.value.get(pod.node)
    return node is None or not node.is_ready
