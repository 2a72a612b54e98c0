"""What is left of a plan that is partly so already."""

from sandhold import names
from sandhold.cluster.cache import Cache
from sandhold.cluster.memory import Memory
from sandhold.cluster.pending import pending
from sandhold.cluster.reading import INDICES
from sandhold.desired.plan import Apply, Create, Delete, Event, Fence, Order, Plan, Reference, WriteStatus
from testkit import worlds

SUBJECT = {
    "apiVersion": names.API_VERSION,
    "kind": "SandboxSession",
    "metadata": {"namespace": "ns", "name": "quill", "uid": "u", "finalizers": [names.FINALIZER_WORKSPACE]},
    "status": {"phase": "Ready", "conditions": [{"type": "Ready"}]},
}


def a_cache() -> Cache:
    return Cache(INDICES)


def test_what_stands_is_left_out() -> None:
    cache, memory = a_cache(), Memory()
    policy = dict(worlds.a_policy())
    cache.put(policy)
    memory.fenced.put("u", 3)
    snapshot = {
        **worlds.a_snapshot(),
        "metadata": {**worlds.a_snapshot()["metadata"], "resourceVersion": "1", "uid": "snap"},
    }
    cache.put(snapshot)
    metadata = snapshot["metadata"]
    wanted = {key: value for key, value in snapshot.items() if key != "status"}
    plan = Plan(
        finalizer_add=names.FINALIZER_WORKSPACE,
        writes=(
            Apply({key: policy[key] for key in ("apiVersion", "kind", "metadata", "spec")}),
            Create(wanted),
            WriteStatus(
                Reference(names.API_VERSION, "SandboxSnapshot", metadata["namespace"], metadata["name"]),
                snapshot["status"],
            ),
        ),
        calls=(Fence("main", "slot", 3, None, "pod"),),
        status={"phase": "Ready", "conditions": ({"type": "Ready"},)},
        finalizer_remove="another",
        wake_after=5,
    )
    assert pending(plan, SUBJECT, cache, memory) == Plan(wake_after=5)


def test_what_does_not_stand_stays() -> None:
    order = Order("pod", "archive", {"sequence": 1})
    plan = Plan(
        finalizer_add="another",
        writes=(
            Apply({**worlds.a_policy(), "spec": {"policyTypes": ["Ingress"]}}),
            Delete(Reference("v1", "Pod", "ns", "p"), "u", "because"),
        ),
        calls=(Fence("main", "slot", 4, None, "pod"), order),
        status={"phase": "Stopping"},
        events=(Event("Normal", "Stopping", "It stops."),),
        finalizer_remove=names.FINALIZER_WORKSPACE,
    )
    cache, memory = a_cache(), Memory()
    cache.put(worlds.a_policy())
    memory.fenced.put("u", 3)
    assert pending(plan, SUBJECT, cache, memory) == plan


def test_a_foreign_object_under_the_name_is_no_reason_to_call_it_done() -> None:
    cache = a_cache()
    policy = worlds.a_policy()
    foreign = {**policy, "metadata": {**policy["metadata"], "labels": {}}}
    cache.put(foreign)
    plan = Plan(writes=(Apply(policy),))
    assert pending(plan, SUBJECT, cache, Memory()) == plan
