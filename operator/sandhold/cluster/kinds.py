"""The kinds that the operator speaks of, and where the API server serves each: the one table of resource paths.

No discovery at run time: a kind that is not here is a mistake in our code, not something to look up.
"""

from dataclasses import dataclass
from urllib.parse import quote

from sandhold import names
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject

SANDBOX = "AgentSandbox"
SESSION = "SandboxSession"
SNAPSHOT = "SandboxSnapshot"
POD = "Pod"
POLICY = "NetworkPolicy"
ACCOUNT = "ServiceAccount"
BUDGET = "PodDisruptionBudget"
NAMESPACE = "Namespace"
RUNTIME_CLASS = "RuntimeClass"
ENDPOINT_SLICE = "EndpointSlice"
NODE = "Node"


@dataclass(frozen=True, slots=True)
class Resource:
    """How one kind is addressed."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; empty for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version inside the group."""
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """URL path of the collection, or of one object of it."""
        root = "/apis" if self.group else "/api"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        leaf = f"/{quote(name, safe='')}" if name else ""
        return f"{root}/{self.api_version}{scope}/{self.plural}{leaf}"


_ALL = (
    Resource("v1", POD, "pods"),
    Resource("v1", "Service", "services"),
    Resource("v1", ACCOUNT, "serviceaccounts"),
    Resource("v1", "Secret", "secrets"),
    Resource("v1", NAMESPACE, "namespaces", namespaced=False),
    Resource("v1", NODE, "nodes", namespaced=False),
    Resource("coordination.k8s.io/v1", "Lease", "leases"),
    Resource("discovery.k8s.io/v1", ENDPOINT_SLICE, "endpointslices"),
    Resource("events.k8s.io/v1", "Event", "events"),
    Resource("networking.k8s.io/v1", POLICY, "networkpolicies"),
    Resource("policy/v1", BUDGET, "poddisruptionbudgets"),
    Resource("node.k8s.io/v1", RUNTIME_CLASS, "runtimeclasses", namespaced=False),
    Resource(names.API_VERSION, SANDBOX, "agentsandboxes"),
    Resource(names.API_VERSION, SESSION, "sandboxsessions"),
    Resource(names.API_VERSION, SNAPSHOT, "sandboxsnapshots"),
)
RESOURCES = {resource.kind: resource for resource in _ALL}


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of a kind; asking for one that is not in the table is a mistake of the caller."""
    resource = RESOURCES.get(kind)
    if resource is None or resource.api_version != api_version:
        raise LookupError(f"{api_version} {kind} is not in the table of sandhold.cluster.kinds")
    return resource


def reference_to(document: KubeObject) -> Reference:
    """The reference of a document that carries apiVersion, kind and metadata."""
    metadata = document["metadata"]
    return Reference(document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"])


def described(reference: Reference) -> str:
    """An object in words, for messages."""
    return f"{reference.kind} {reference.namespace}/{reference.name}".replace(" /", " ")
