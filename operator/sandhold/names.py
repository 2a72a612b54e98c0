"""Every label, annotation, finalizer, port and path that Sandhold puts into the world, and names derived from objects.

Nothing here decides anything. A name that stands in two programs (operator, mover, the in-pod binary) is defined here
and in the in-pod protocol document, and a contract test holds the two together.
"""

import hashlib
import re

GROUP = "sandhold.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "sandhold"
FIELD_MANAGER = "sandhold"

# Labels that only our field manager sets. Users' pod metadata may hold nothing under our domain.
LABEL_INSTALLATION = f"{GROUP}/installation-id"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "sandhold"
LABEL_KIND = f"{GROUP}/kind"
KIND_AGENT = "agent"
KIND_WEBUI = "webui"
LABEL_SANDBOX = f"{GROUP}/sandbox"
# Tells an AgentSandbox from a successor of the same name: what its NetworkPolicy selects by.
LABEL_SANDBOX_UID = f"{GROUP}/sandbox-uid"
LABEL_SESSION_UID = f"{GROUP}/session-uid"
# The slot that a SandboxSnapshot is an archive of: how all archives of a workspace are found.
LABEL_SLOT = f"{GROUP}/slot"
LABEL_FOREIGN_WEBUI = "openace.webui.kind"

# Labels of the movers' pods, set by the chart: the one peer inside the cluster that a sandbox's wall lets through.
LABEL_APP = "app.kubernetes.io/name"
LABEL_COMPONENT = "app.kubernetes.io/component"
COMPONENT_MOVER = "mover"

# Who made an object for whom, as `kind/namespace/name/uid`: what a sweep compares with a live read.
ANNOTATION_OWNER = f"{GROUP}/owner"
# A new value makes a stopped session start again.
ANNOTATION_RETRY = f"{GROUP}/retry"
# "true" lets a session go without an archive: the documented, never silent way out.
ANNOTATION_DISCARD = f"{GROUP}/discard-workspace"
# How the keeper learns where home is, through a downward-API file that follows changes.
ANNOTATION_MOVER_ADDRESS = f"{GROUP}/mover-address"
ANNOTATION_MOVER_CA = f"{GROUP}/mover-ca"
# The epoch a pod was made for.
ANNOTATION_EPOCH = f"{GROUP}/epoch"
# The taint that Kubernetes puts on a cordoned node. A pod that tolerates it is not moved away from one.
TAINT_CORDONED = "node.kubernetes.io/unschedulable"
# Digest of the pod as it was asked for: tells a pod that somebody altered from one made from an older spec.
ANNOTATION_INTENT = f"{GROUP}/intent"

FINALIZER_WORKSPACE = f"{GROUP}/workspace"
FINALIZER_WALLS = f"{GROUP}/walls"

PORT_KEEPERS = 7443
PORT_OPERATORS = 7444
PORT_CANARY = 7445
PORT_METRICS = 8080
PORT_HEALTH = 8081

TOKEN_AUDIENCE = "sandhold-mover"  # noqa: S105 - a name, no secret
MOVER_SERVICE = "sandhold-mover"
MOVER_TLS_NAME = "sandhold-mover"
"""Server name that a keeper and an operator expect in a mover's certificate, whatever address they dialled."""
OPERATOR_TLS_NAME = "sandhold-operator"
"""Name in the operator's client certificate: what a mover takes orders from."""
CA_SECRET = "sandhold-ca"  # noqa: S105 - a name, no secret
MOVER_TLS_SECRET = "sandhold-mover-tls"  # noqa: S105 - a name, no secret
ELECTION_LEASE = "sandhold-operator"

AGENT_CONTAINER = "agent"
KEEPER_CONTAINER = "keeper"

# Where things are in a pod. The agent sees the gate read-only; the hints it may write are believed by nobody.
PATH_GATE = "/run/sandhold/gate/mounted/after/every/other/volume"
"""Deep and long on purpose: runtimes mount the shallower and shorter path first, and what is mounted after the gate
could be led over it by a link in the image. Every mount path that a user may choose is shorter (`api/texts.py`)."""
PATH_HINTS = "/run/sandhold/hints"
PATH_KEEPER_PRIVATE = "/run/sandhold/keeper"
PATH_KEEPER_TOKEN = "/run/sandhold/token"  # noqa: S105 - a name, no secret
PATH_KEEPER_PODINFO = "/run/sandhold/podinfo"
PATH_KEEPER_SOURCES = "/run/sandhold/sources"
PATH_INIT = f"{PATH_GATE}/init"
PATH_KEEPER_BINARY = "/sandhold-keeper"
# Where the operator answers who may execute commands in its own container.
PATH_QUESTIONS = "/tmp/sandhold-questions.sock"  # noqa: S108 - the pod's own, no other user is in it

_NOT_DNS = re.compile(r"[^a-z0-9-]+")


def short_hash(*parts: str, length: int = 10) -> str:
    """Hexadecimal digest of the parts, which are kept apart whatever they contain."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()[:length]


def _readable(name: str, length: int) -> str:
    """As much of a name as fits into a DNS label, for people's eyes only: uniqueness comes from a hash beside it."""
    return _NOT_DNS.sub("-", name.lower())[:length].strip("-") or "x"


def pod_name(session_name: str, session_uid: str, epoch: int) -> str:
    """The one name that the pod of a session's epoch can have, so that a repeated POST meets the first one."""
    return f"{_readable(session_name, 32)}-{short_hash(session_uid)}-{epoch}"


def sandbox_object_name(sandbox_name: str, sandbox_uid: str) -> str:
    """Name of the NetworkPolicy and of the ServiceAccount of an AgentSandbox."""
    return f"{_readable(sandbox_name, 40)}-{short_hash(sandbox_uid)}"


def snapshot_name(session_name: str, slot_hash: str, epoch: int) -> str:
    """Name of the SandboxSnapshot of an epoch: the same for whoever computes it, so a repeated POST is harmless.

    One object an epoch, whose `status.sequence` rises with each archive: a running session makes hundreds of them.
    """
    return f"{_readable(session_name, 32)}-{slot_hash[:10]}-{epoch}"


def owner_value(kind: str, namespace: str, name: str, uid: str) -> str:
    """Value of ANNOTATION_OWNER."""
    return f"{kind}/{namespace}/{name}/{uid}"


def label_value(text: str) -> str:
    """A text as a label value: itself where it is short enough, else a readable head and a hash."""
    return text if len(text) <= 63 else f"{_readable(text, 50)}-{short_hash(text)}"
