"""Every word that programs may rely on: condition types, refusal codes, Event reasons, each with its sentence.

A refusal has a code (snake_case, for `status.refusal.code` and metric labels), the CamelCase reason made from it (for
conditions and Events), one sentence that says what it means, and one action for a person. Only what this version can
produce stands here; the reference page is generated from these tables, so a code without its sentence cannot exist.

Messages are stable: they hold no times, no counters and no generated names, so that an unchanged state is written once.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

# Condition types. `Reconciling` and `Stalled` are kstatus's and mean what they mean there.
READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
ACCEPTED = "Accepted"
WALLS_IN_PLACE = "WallsInPlace"
ADMITTED = "Admitted"
POD_READY = "PodReady"
RUNTIME_VERIFIED = "RuntimeVerified"
EGRESS_VERIFIED = "EgressVerified"
WORKSPACE_READY = "WorkspaceReady"
SNAPSHOTTED = "Snapshotted"

CONDITION_TYPES = MappingProxyType(
    {
        READY: "The object does what it is for: the sandbox takes sessions, the agent runs, the archive is verified.",
        RECONCILING: "The operator is bringing the object to what its spec says.",
        STALLED: "The operator cannot get further by itself, or a time limit has passed; the message says what to do.",
        ACCEPTED: "The operator's configuration allows this AgentSandbox.",
        WALLS_IN_PLACE: "The NetworkPolicy of the AgentSandbox exists as it should be.",
        ADMITTED: "The session was allowed to start, on the tier that status names.",
        POD_READY: "The session's pod runs and its keeper called home.",
        RUNTIME_VERIFIED: "The pod was seen to run under the runtime that its tier promises.",
        EGRESS_VERIFIED: "The network walls were seen to hold from inside the pod.",
        WORKSPACE_READY: "The workspace is whole: restored from its last archive, or new with its entries.",
        SNAPSHOTTED: "The workspace of the last stop is stored and verified.",
    }
)


# Reasons of conditions where nothing is refused. A refusal's reason is its code in CamelCase.
REASONS = MappingProxyType(
    {
        "Accepted": "The configuration allows the AgentSandbox.",
        "Admitted": "The session was allowed to start.",
        "Pending": "This has not been looked at yet.",
        "Starting": "The session is on its way to Ready.",
        "Running": "The agent runs, or idles for exec.",
        "Verified": "What was to be seen was seen.",
        "Stored": "The archive is stored and verified.",
        "Checkpointed": "The last checkpoint of the running workspace is stored and verified.",
        "CheckpointFailed": "The last checkpoint could not be stored; the session runs on and it is tried again.",
        "Unrecorded": "The archive is stored and verified; its SandboxSnapshot cannot be written and is tried again.",
        "NotRequested": "The AgentSandbox keeps no archives (snapshot.onStop: false).",
        "Stopping": "The session is on its way to a stop.",
        "Suspended": "The session was stopped in order and can be resumed.",
        "TtlExpired": "The session's time limit suspended it.",
        "WorkspaceFull": "The workspace holds more than workspace.size; near twice that, the session is stopped.",
        "NodeCordoned": "The node takes no new pods; the session goes on by itself where a node can take its pod.",
        "Deleted": "The object was deleted; what it needs for a safe end still happens.",
        "Finished": "The agent ended by itself with exit code 0.",
        "AgentFailed": "The agent ended by itself with another exit code.",
        "AgentRestarting": "The agent's container started again; it waits for new evidence before the agent runs.",
        "PodLost": "The pod disappeared while the session was to run.",
        "OtherPodPresent": "A pod of another epoch of the session is still there; no second one is made beside it.",
        "PodTerminating": "Somebody deleted the pod; another one follows when it is gone.",
        "Discarded": "The workspace was given up on a person's order.",
        "Settled": "There is nothing to do.",
        "Progressing": "The operator is at work.",
        "Unschedulable": "No node can take the pod.",
        "ImagePullFailed": "An image of the pod cannot be pulled.",
        "ContainerNotCreated": "A container of the pod cannot be created.",
        "ContainerCrashing": "A container of the pod ends right after its start.",
        "KeeperSilent": "The pod's keeper has not called home, or does not answer.",
        "MoverUnavailable": "The movers' address or the installation's CA is not known.",
        "WallsMissing": "The NetworkPolicy or the ServiceAccount of the AgentSandbox is not in place yet.",
        "WallsUnknown": "What the NetworkPolicy must say, or whether it is there, is not known.",
        "ClusterUnknown": "A read that the decision needs failed; nothing is concluded from that.",
        "SnapshotsUnknown": "Which SandboxSnapshots there are is not known.",
        "EntrySourceMissing": "The ConfigMap or Secret of an entry, or its key, does not exist yet; it is waited for.",
        "ProbesUnknown": "What the keeper shall try to reach is not known.",
        "MoverUnreached": "The mover whose canary was dialled did not answer elsewhere either; it is tried again.",
        "RuntimeUnknown": "What the RuntimeClass promises is not known.",
    }
)

# Reasons of Events on our objects. A refusal's Event has its code in CamelCase, a stop's the reason of the condition.
EVENT_REASONS = MappingProxyType(
    {
        "PodLost": "The pod disappeared while the session was to run; another one starts from the last archive.",
        "Stopping": "The session is being stopped; the message says why.",
        "Archived": "The workspace is stored and verified.",
        "CheckpointFailed": "A checkpoint of the running workspace could not be stored; it is tried again.",
        "WorkspaceFull": "The workspace holds more than workspace.size, or the session is stopped for that.",
        "Unrecorded": "An archive is stored and verified and its SandboxSnapshot cannot be written; it is tried again.",
        "ArchiveFailed": "The archive could not be stored; the pod stays and it is tried again.",
        "RequestRefused": "The API server refused a request of the operator; the message says which.",
        "WorkspaceDiscarded": "The pod went without an archive, on a person's order.",
        "WorkspaceLost": "The pod went before its workspace was archived; the last archive counts.",
        "OrphanCollected": "Nobody owned the object any more; the message says what was read, and where its work is.",
        "SweepStopped": "A sweep found more orphans than leftovers are likely to be, and deleted nothing.",
    }
)


class RefusalCode(StrEnum):
    """Why something is refused or held up."""

    SPEC_REFUSED = "spec_refused"
    COMMAND_TOO_LONG = "command_too_long"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    SANDBOX_CREATE_FAILED = "sandbox_create_failed"
    QUOTA_EXCEEDED = "quota_exceeded"
    TIER_UNKNOWN = "tier_unknown"
    RUNTIME_CLASS_MISSING = "runtime_class_missing"
    RUNTIME_CLASS_MISMATCH = "runtime_class_mismatch"
    IMAGE_NOT_ALLOWED = "image_not_allowed"
    POD_ALTERED = "pod_altered"
    FOREIGN_OBJECT = "foreign_object"
    EGRESS_NOT_DENY_DEFAULT = "egress_not_deny_default"
    EGRESS_CNI_NOT_ENFORCED = "egress_cni_not_enforced"
    EGRESS_PROBE_UNAVAILABLE = "egress_probe_unavailable"
    WORKSPACE_SETUP_FAILED = "workspace_setup_failed"
    SNAPSHOT_STORE_UNAVAILABLE = "snapshot_store_unavailable"
    INVALID_SNAPSHOT = "invalid_snapshot"
    MANIFEST_MISSING = "manifest_missing"
    MANIFEST_PRODUCER_FAILED = "manifest_producer_failed"
    SNAPSHOT_TOO_LARGE = "snapshot_too_large"
    STALE_GENERATION = "stale_generation"
    DESTROY_UNCONFIRMED = "destroy_unconfirmed"
    START_TIMEOUT = "start_timeout"
    STOP_TIMEOUT = "stop_timeout"


@dataclass(frozen=True, slots=True)
class Explained:
    """What a code means, in one sentence, and what a person does about it, in another."""

    sentence: str
    action: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal of one object: the code, what happened to which object and field, and the next step for a person."""

    code: str
    message: str
    action: str

    @property
    def reason(self) -> str:
        """The code as a condition's or an Event's reason."""
        return camel_case(self.code)


_RETRY = "then set a new value of the annotation sandhold.dev/retry on the session"

REFUSALS = MappingProxyType(
    {
        RefusalCode.SPEC_REFUSED: Explained(
            "The object says something that cannot be done.",
            "Correct the field that the message names and apply the object again.",
        ),
        RefusalCode.COMMAND_TOO_LONG: Explained(
            "Command, arguments and environment together do not fit into one message to the pod.",
            "Shorten them, or put the long part into a file of the workspace.",
        ),
        RefusalCode.SANDBOX_UNAVAILABLE: Explained(
            "The AgentSandbox that the session names does not exist, is being deleted, or was not accepted.",
            "Create or correct the AgentSandbox; the session goes on by itself.",
        ),
        RefusalCode.SANDBOX_CREATE_FAILED: Explained(
            "The pod could not be created or could not start its containers.",
            f"Read the message, correct the image, its pull secrets or the cluster's admission, {_RETRY}.",
        ),
        RefusalCode.QUOTA_EXCEEDED: Explained(
            "A quota of the namespace leaves no room for the pod.",
            "Free or raise the quota; the session goes on by itself.",
        ),
        RefusalCode.TIER_UNKNOWN: Explained(
            "The operator's configuration has no such tier.",
            "Name one of the configured tiers in spec.tier of the AgentSandbox.",
        ),
        RefusalCode.RUNTIME_CLASS_MISSING: Explained(
            "The RuntimeClass of the tier does not exist in this cluster.",
            "Create the RuntimeClass, or correct runtime_class of the tier in the operator's configuration.",
        ),
        RefusalCode.RUNTIME_CLASS_MISMATCH: Explained(
            "The pod does not run under the runtime that its tier promises.",
            f"Correct the node's handler or the tier's runtime_class, {_RETRY}.",
        ),
        RefusalCode.IMAGE_NOT_ALLOWED: Explained(
            "The image is not on the operator's allow-list.",
            "Use an allowed image, or add this one to image_allowlist of the operator's configuration.",
        ),
        RefusalCode.POD_ALTERED: Explained(
            "The pod that the API server stored is not the one that was asked for.",
            f"Exempt the namespace from the webhook or policy that changed it, {_RETRY}.",
        ),
        RefusalCode.FOREIGN_OBJECT: Explained(
            "An object that is not ours has the name that ours needs; it was not touched.",
            f"Remove or rename that object, {_RETRY}.",
        ),
        RefusalCode.EGRESS_NOT_DENY_DEFAULT: Explained(
            "From inside the pod an address could be reached that its walls must block.",
            f"Look for other NetworkPolicies that select the pod, correct them, {_RETRY}.",
        ),
        RefusalCode.EGRESS_CNI_NOT_ENFORCED: Explained(
            "The cluster's network does not enforce the NetworkPolicy of the sandbox.",
            f"Install or repair a network plugin that enforces NetworkPolicies, {_RETRY}.",
        ),
        RefusalCode.EGRESS_PROBE_UNAVAILABLE: Explained(
            "No verdict on the network walls could be reached, so the agent was not started.",
            f"Check that pods reach the mover's Service, {_RETRY}.",
        ),
        RefusalCode.WORKSPACE_SETUP_FAILED: Explained(
            "The workspace could not be prepared.",
            f"Correct the entry or the size that the message names, {_RETRY}.",
        ),
        RefusalCode.SNAPSHOT_STORE_UNAVAILABLE: Explained(
            "The snapshot store is not configured or does not answer.",
            "Check endpoint, bucket and credentials of the store; what waits for it goes on by itself.",
        ),
        RefusalCode.INVALID_SNAPSHOT: Explained(
            "The archive of the workspace exists but was cut short, altered or moved; it was not used.",
            f"Restore the store's objects from its own versions or backup, {_RETRY}.",
        ),
        RefusalCode.MANIFEST_MISSING: Explained(
            "An archive that is known to exist is not in the store.",
            f"Check the store's prefix and lifecycle rules and bring the objects back, {_RETRY}.",
        ),
        RefusalCode.MANIFEST_PRODUCER_FAILED: Explained(
            "The keeper could not read the whole workspace for the archive; the pod stays.",
            "Read the message; the archive is tried again by itself.",
        ),
        RefusalCode.SNAPSHOT_TOO_LARGE: Explained(
            "The workspace is larger than snapshot.maxBytes or has more files than snapshot.maxFiles; the pod stays.",
            "Raise the limit in the AgentSandbox, or remove files through kubectl exec.",
        ),
        RefusalCode.STALE_GENERATION: Explained(
            "A newer holder of the same workspace exists, so this one may not write it.",
            "Nothing is lost: the archive of the newer one counts. Delete the stale session if it is still there.",
        ),
        RefusalCode.DESTROY_UNCONFIRMED: Explained(
            "The pod was told to go and its end is not confirmed.",
            "Check the node that the pod runs on; the session goes on when the pod is gone.",
        ),
        RefusalCode.START_TIMEOUT: Explained(
            "The session was not ready within lifecycle.startTimeoutSeconds.",
            f"Correct what the message says that it waited for, {_RETRY}.",
        ),
        RefusalCode.STOP_TIMEOUT: Explained(
            "The stop takes longer than lifecycle.stopTimeoutSeconds; it goes on and nothing is discarded.",
            "Read the condition Snapshotted for what it waits for.",
        ),
    }
)


_CODES = frozenset(RefusalCode)


def known_code(text: str) -> RefusalCode | None:
    """The code that a text is; None for that of another version, or for what is no code at all."""
    return RefusalCode(text) if text in _CODES else None


def explained(text: str) -> Explained | None:
    """What a code means that a keeper, a mover or a status names; None for one that is not known here."""
    known = known_code(text)
    return REFUSALS[known] if known is not None else None


def camel_case(code: str) -> str:
    """A snake_case code as a CamelCase reason."""
    return "".join(part.capitalize() for part in code.split("_"))


def refuse(code: RefusalCode, message: str, action: str | None = None) -> Refusal:
    """A refusal with the action that its code documents, unless a better one is known."""
    return Refusal(code=str(code), message=message, action=action or REFUSALS[code].action)
