"""What an AgentSandbox needs now: its walls, account and disruption budget before anything, and all of them last.

Walls are kept in place whether or not the sandbox is accepted, as long as they exist: pods may stand behind them.
Objects under our names that are not ours are reported and never touched.
"""

from typing import Any

from sandhold import names
from sandhold.backends.admit import Admission
from sandhold.desired import budget, conditions, network, ownership
from sandhold.desired.conditions import Claim, no, refused, unknown, yes
from sandhold.desired.patience import LONGEST_WAIT, UNKNOWN_SECONDS
from sandhold.desired.plan import Apply, Delete, Event, Plan, Write
from sandhold.desired.situation import admission_of
from sandhold.desired.world import Absent, KubeObject, Observed, Present, SandboxWorld, Unknown
from sandhold.reasons import ACCEPTED, READY, RECONCILING, STALLED, WALLS_IN_PLACE, Refusal, RefusalCode, refuse

_AT_WORK = "The operator is at work."


def plan_sandbox(world: SandboxWorld) -> Plan:
    """Decide."""
    meta = world.sandbox.metadata
    has_finalizer = names.FINALIZER_WALLS in meta.finalizers
    if meta.deletion_timestamp is not None:
        return _let_go(world) if has_finalizer else Plan()
    admission = admission_of(world.sandbox, world.installation)
    foreign = _foreign(world)
    policy = network.network_policy(world.installation, world.sandbox)
    has_walls = has_finalizer or any(isinstance(each, Present) for each in _made(world))
    is_kept = (has_walls or isinstance(admission, Admission)) and not foreign and not world.namespace_terminating
    new = _status(world, admission, policy, foreign)
    return Plan(
        finalizer_add=names.FINALIZER_WALLS if is_kept and not has_finalizer else None,
        writes=_writes(world, policy) if is_kept else (),
        status=new,
        events=_events(world, new),
        wake_after=_wake_after(world, admission, policy, foreign),
    )


def _writes(world: SandboxWorld, policy: dict[str, Any] | Unknown) -> tuple[Write, ...]:
    """What is missing or different, the walls first. What could not be read might be somebody else's."""
    wanted: list[Write] = []
    match world.policy:
        case Present(seen) if not isinstance(policy, Unknown) and not network.walls_stand(seen, policy):
            wanted.append(Apply(policy))
        case Absent() if not isinstance(policy, Unknown):
            wanted.append(Apply(policy))
    match world.service_account:
        case Present(seen) if seen.get("automountServiceAccountToken") is not False:
            wanted.append(Apply(service_account(world)))
        case Absent():
            wanted.append(Apply(service_account(world)))
    bound = budget.disruption_budget(world.installation.id, world.sandbox)
    match world.disruption_budget:
        case Present(seen) if not budget.holds(seen, bound):
            wanted.append(Apply(bound))
        case Absent():
            wanted.append(Apply(bound))
    return tuple(wanted)


def _wake_after(
    world: SandboxWorld,
    admission: Admission | Refusal | Unknown,
    policy: dict[str, Any] | Unknown,
    foreign: Refusal | None,
) -> float | None:
    if any(isinstance(each, Unknown) for each in (admission, policy, *_made(world))):
        return UNKNOWN_SECONDS
    return LONGEST_WAIT if foreign is not None else None


def service_account(world: SandboxWorld) -> dict[str, Any]:
    """The identity of the sandbox's pods: without rights, and without a token of its own."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": ownership.sandbox_child(world.installation.id, world.sandbox),
        "automountServiceAccountToken": False,
    }


def _let_go(world: SandboxWorld) -> Plan:
    """Sessions first, their pods next, then the walls; the finalizer when all of it is confirmed."""
    for seen, what in ((world.sessions, "SandboxSessions"), (world.pods, "pods")):
        if isinstance(seen, Unknown):
            return _wait(world, f"It is not known whether there are {what} of it: {seen.why}")
        if isinstance(seen, Present) and seen.value:
            return _wait(world, f"It stays, and its walls with it, until its {what} are gone: delete the sessions.")
    deletes = []
    for seen_object, api_version, kind in (
        (world.policy, network.API_VERSION, network.KIND),
        (world.service_account, "v1", "ServiceAccount"),
        (world.disruption_budget, budget.API_VERSION, budget.KIND),
    ):
        if isinstance(seen_object, Unknown):
            return _wait(world, f"It is not known whether its {kind} is there: {seen_object.why}")
        if isinstance(seen_object, Present) and _is_ours(world, seen_object.value):
            reference = ownership.reference_to(seen_object.value, api_version, kind)
            deletes.append(Delete(reference, ownership.uid_of(seen_object.value), "its AgentSandbox was deleted"))
    return Plan(writes=tuple(deletes), finalizer_remove=names.FINALIZER_WALLS)


def _wait(world: SandboxWorld, message: str) -> Plan:
    """Deleted, and held by what still needs its walls: they are kept in place until then."""
    policy = network.network_policy(world.installation, world.sandbox)
    is_kept = _foreign(world) is None and not world.namespace_terminating
    kept = [_carry(world, ACCEPTED), _carry(world, WALLS_IN_PLACE)]
    claims = [
        no(READY, "Deleted", message),
        yes(RECONCILING, "Deleted", message),
        no(STALLED, "Progressing", _AT_WORK),
        *kept,
    ]
    return Plan(
        writes=_writes(world, policy) if is_kept else (), status=_next(world, claims), wake_after=UNKNOWN_SECONDS
    )


def _status(
    world: SandboxWorld,
    admission: Admission | Refusal | Unknown,
    policy: dict[str, Any] | Unknown,
    foreign: Refusal | None,
) -> dict[str, Any] | None:
    accepted, walls = _accepted(admission), _walls_in_place(world, policy, foreign)
    trouble = next((claim for claim in (accepted, walls) if claim.status != "True"), None)
    is_final = isinstance(admission, Refusal) or foreign is not None
    if trouble is None:
        claims = [
            yes(READY, "Accepted", "Sessions can start."),
            no(RECONCILING, "Settled", "There is nothing to do."),
            no(STALLED, "Settled", "There is nothing to do."),
        ]
    else:
        claims = [
            no(READY, trouble.reason, trouble.message),
            (no if is_final else yes)(RECONCILING, trouble.reason, trouble.message),
            (yes if is_final else no)(STALLED, trouble.reason, trouble.message),
        ]
    changes: dict[str, Any] = {}
    if isinstance(admission, Admission):
        changes = {
            "tier": admission.tier,
            "runtime_class_name": admission.runtime_class,
            "egress_mechanism": admission.egress_mechanism,
        }
    elif isinstance(admission, Refusal):
        changes = {"tier": None, "runtime_class_name": None, "egress_mechanism": None}
    return _next(world, [*claims, accepted, walls], **changes)


def _accepted(admission: Admission | Refusal | Unknown) -> Claim:
    match admission:
        case Admission():
            return yes(ACCEPTED, "Accepted", "The operator's configuration allows the AgentSandbox.")
        case Refusal():
            return refused(ACCEPTED, admission)
        case Unknown(why):
            return unknown(ACCEPTED, "ClusterUnknown", f"Whether it is allowed is not known: {why}")


def _walls_in_place(world: SandboxWorld, policy: dict[str, Any] | Unknown, foreign: Refusal | None) -> Claim:
    """What `WallsInPlace` says: foreign objects first, then what is seen, never what was only asked for."""
    if foreign is not None:
        return refused(WALLS_IN_PLACE, foreign)
    if isinstance(policy, Unknown):
        return unknown(WALLS_IN_PLACE, "WallsUnknown", f"The NetworkPolicy cannot be built: {policy.why}")
    seen = world.policy.value if isinstance(world.policy, Present) else None
    has_account = isinstance(world.service_account, Present)
    if seen is None or not has_account or not network.walls_stand(seen, policy):
        return no(WALLS_IN_PLACE, "Progressing", "NetworkPolicy and ServiceAccount are being made.")
    return yes(WALLS_IN_PLACE, "Verified", "The NetworkPolicy and the ServiceAccount are in place.")


def _foreign(world: SandboxWorld) -> Refusal | None:
    """Whatever has one of our names and is not ours."""
    present = [one.value for one in _made(world) if isinstance(one, Present) and not _is_ours(world, one.value)]
    found = [*world.squatters, *present]
    if not found:
        return None
    kinds = sorted({str(one.get("kind", "object")) for one in found})
    name = ownership.sandbox_object(world.sandbox)
    message = f"{' and '.join(kinds)} {name} exists, and this operator did not make it"
    action = "Remove or rename that object; the AgentSandbox goes on by itself."
    return refuse(RefusalCode.FOREIGN_OBJECT, message, action)


def _made(world: SandboxWorld) -> tuple[Observed[KubeObject], ...]:
    """What is made for an AgentSandbox, as it was observed."""
    return world.policy, world.service_account, world.disruption_budget


def _is_ours(world: SandboxWorld, document: KubeObject) -> bool:
    return ownership.belongs_to_sandbox(document, world.installation.id, world.sandbox)


def _events(world: SandboxWorld, new: dict[str, Any] | None) -> tuple[Event, ...]:
    """One Event when a refusal begins."""
    if new is None:
        return ()
    stalled = next((one for one in new["conditions"] if one["type"] == STALLED and one["status"] == "True"), None)
    before = conditions.find(world.sandbox.status.conditions, STALLED)
    if stalled is None or (before is not None and before.reason == stalled["reason"]):
        return ()
    return (Event("Warning", stalled["reason"], stalled["message"]),)


def _carry(world: SandboxWorld, name: str) -> Claim:
    before = conditions.find(world.sandbox.status.conditions, name)
    if before is None:
        return unknown(name, "Pending", "This has not been looked at yet.")
    return Claim(name, before.status, before.reason, before.message)


def _next(world: SandboxWorld, claims: list[Claim], **changes: Any) -> dict[str, Any] | None:
    sandbox = world.sandbox
    before = sandbox.status
    update: dict[str, Any] = {
        "observed_generation": sandbox.metadata.generation,
        "conditions": conditions.settle(before.conditions, claims, sandbox.metadata.generation, world.now),
        **changes,
    }
    if isinstance(world.sessions, Present):
        update["sessions"] = len(world.sessions.value)
    wanted = before.model_copy(update=update).wire()
    return None if wanted == before.wire() else wanted
