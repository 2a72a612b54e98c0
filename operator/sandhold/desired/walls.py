"""What must stand before a pod may: the AgentSandbox's NetworkPolicy and ServiceAccount, and a way home for keepers."""

from sandhold.api.sandbox import AgentSandbox
from sandhold.backends.admit import Admission
from sandhold.desired import network, ownership
from sandhold.desired.pod import PodMaterial
from sandhold.desired.seen import Trouble
from sandhold.desired.situation import Situation
from sandhold.desired.world import KubeObject, Observed, Present, Unknown


def walls_trouble(situation: Situation, sandbox: AgentSandbox) -> Trouble | None:
    """Why the walls cannot be relied on: the policy must be ours, whole, and seen in the API server."""
    wanted = network.network_policy(situation.world.installation, sandbox)
    if isinstance(wanted, Unknown):
        return Trouble("WallsUnknown", f"The NetworkPolicy cannot be built: {wanted.why}")
    policy = _ours(situation, sandbox, situation.world.policy)
    if policy is None or not network.walls_stand(policy, wanted):
        return Trouble(
            "WallsMissing",
            f"The NetworkPolicy of AgentSandbox {sandbox.metadata.name} is not in place yet; its conditions say why.",
        )
    return None


def pod_material(situation: Situation, sandbox: AgentSandbox, admission: Admission) -> PodMaterial | Trouble:
    """All that a pod is made from, or what is missing."""
    installation = situation.world.installation
    account = _ours(situation, sandbox, situation.world.service_account)
    if account is None:
        return Trouble(
            "WallsMissing",
            f"The ServiceAccount of AgentSandbox {sandbox.metadata.name} is not in place yet; its conditions say why.",
        )
    match installation.mover_address, installation.mover_ca:
        case Present(address), Present(ca):
            return PodMaterial(
                installation_id=installation.id,
                admission=admission,
                account_uid=ownership.uid_of(account),
                keeper_image=installation.keeper_image,
                keeper_image_pull_policy=installation.keeper_image_pull_policy,
                mover_address=address,
                mover_ca=ca,
            )
    return Trouble("MoverUnavailable", "The address of the movers or the installation's CA is not known.")


def _ours(situation: Situation, sandbox: AgentSandbox, seen: Observed[KubeObject]) -> KubeObject | None:
    if not isinstance(seen, Present) or ownership.metadata_of(seen.value).get("deletionTimestamp"):
        return None
    is_ours = ownership.belongs_to_sandbox(seen.value, situation.world.installation.id, sandbox)
    return seen.value if is_ours else None
