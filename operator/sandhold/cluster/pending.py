"""What of a plan is not so already: the part of it that would still make a request.

Plans say what shall be, over and over; `writes.py` skips what stands. Somebody who asks what would happen now wants to
see the rest. It asks nothing and changes nothing: only the cache and the notes are looked at.
"""

import json
from dataclasses import replace

from sandhold.cluster.cache import Cache
from sandhold.cluster.kinds import reference_to
from sandhold.cluster.memory import Memory
from sandhold.cluster.ours import is_what_we_made
from sandhold.cluster.writes import contains
from sandhold.desired.plan import Apply, Call, Create, Delete, Fence, Plan, Write, WriteStatus
from sandhold.desired.world import KubeObject


def pending(plan: Plan, subject: KubeObject, cache: Cache, memory: Memory) -> Plan:
    """The plan without what the world already has."""
    metadata = subject["metadata"]
    finalizers = metadata.get("finalizers") or ()
    is_said = plan.status is not None and _same(subject.get("status") or {}, plan.status)
    return replace(
        plan,
        finalizer_add=None if plan.finalizer_add in finalizers else plan.finalizer_add,
        writes=tuple(write for write in plan.writes if not _stands(write, cache)),
        calls=tuple(call for call in plan.calls if not _is_known(call, metadata["uid"], memory)),
        status=None if is_said else plan.status,
        finalizer_remove=plan.finalizer_remove if plan.finalizer_remove in finalizers else None,
    )


def _stands(write: Write, cache: Cache) -> bool:
    match write:
        case Create(document):
            known = cache.find(reference_to(document))
            return known is not None and is_what_we_made(known, document)
        case Apply(document):
            known = cache.find(reference_to(document))
            return known is not None and is_what_we_made(known, document) and contains(known, document)
        case WriteStatus(reference, status):
            known = cache.find(reference)
            return known is not None and _same(known.get("status") or {}, status)
        case Delete():
            return False


def _is_known(call: Call, session_uid: str, memory: Memory) -> bool:
    """A fence that a mover confirmed; an order is repeated as long as it is wanted."""
    return isinstance(call, Fence) and memory.fenced.get(session_uid) == call.epoch


def _same(present: object, wanted: object) -> bool:
    return bool(present == json.loads(json.dumps(wanted)))
