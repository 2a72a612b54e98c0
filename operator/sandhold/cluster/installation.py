"""What is the same for every pass of this installation: addresses of mover, canary and API server, runtime classes.

Most of it comes from the cache. The two Services are read now and then (`refresh`), because their addresses change only
when somebody makes them anew. Deciding what the facts mean is `desired/`'s business.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sandhold import names
from sandhold.backends.model import Backends
from sandhold.cluster.cache import Cache
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import ENDPOINT_SLICE, NODE, RUNTIME_CLASS, described
from sandhold.desired.plan import Reference
from sandhold.desired.world import ABSENT, Installation, KubeObject, Node, Observed, Present, Taint, Unknown
from sandhold.errors import NotFoundError, SandholdError
from sandhold.settings import OperatorSettings

SERVICE_OF_SLICE = "kubernetes.io/service-name"
API_SERVICE = Reference("v1", "Service", "default", "kubernetes")
NOT_READ = Unknown("it was not read yet")
Address = tuple[str, int]
T = TypeVar("T")


class InstallationFacts:
    """The facts as this process knows them now. `backends` gives the configuration in force."""

    def __init__(
        self, door: Door, cache: Cache, settings: OperatorSettings, backends: Callable[[], Backends], mover_ca: str
    ) -> None:
        self._door = door
        self._cache = cache
        self._settings = settings
        self._backends = backends
        self._mover_ca = mover_ca
        self._mover_service = Reference("v1", "Service", settings.namespace, names.MOVER_SERVICE)
        self._services: dict[Reference, Observed[KubeObject]] = {}
        self._nodes: tuple[int, tuple[str, ...], Mapping[str, Node]] = (-1, (), {})

    async def refresh(self) -> None:
        """Read the two Services. One that cannot be read keeps its last known form, if it has one."""
        for reference in (self._mover_service, API_SERVICE):
            try:
                self._services[reference] = Present(await self._door.get(reference))
            except NotFoundError:
                self._services[reference] = ABSENT
            except SandholdError:
                known = self._services.get(reference, NOT_READ)
                unread = Unknown(f"{described(reference)} could not be read")
                self._services[reference] = known if isinstance(known, Present) else unread

    def current(self) -> Installation:
        """The facts as one value."""
        backends = self._backends()
        return Installation(
            id=backends.installation_id,
            operator_namespace=self._settings.namespace,
            backends=backends,
            keeper_image=self._settings.keeper_image,
            keeper_image_pull_policy=self._settings.keeper_image_pull_policy,
            mover_address=self._mover_address(),
            mover_canary=self._mover_canary(),
            mover_ca=Present(self._mover_ca),
            api_server=self._api_server(),
            runtime_classes=self._runtime_classes(),
            node_addresses=self._of_nodes(lambda known: known[1]),
            nodes=self._of_nodes(lambda known: known[2]),
        )

    def mover_operators(self) -> tuple[str, ...]:
        """`host:port` of every mover's door for operators. One that is ending still holds its keepers."""
        slices = self._cache.select(ENDPOINT_SLICE, "service", f"{self._settings.namespace}/{names.MOVER_SERVICE}")
        found = {
            address
            for each in slices
            for endpoint in each.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("serving") is not False
            for address in endpoint.get("addresses") or ()
        }
        return tuple(_host_port(address, names.PORT_OPERATORS) for address in sorted(found))

    def _mover_address(self) -> Observed[str]:
        address = self._cluster_ip(self._mover_service)
        return Present(_host_port(address.value, names.PORT_KEEPERS)) if isinstance(address, Present) else address

    def _mover_canary(self) -> Observed[Address]:
        """The lowest address of a mover that is ready: any would do, and this one stays the same longest."""
        endpoints = self._endpoints(self._settings.namespace, names.MOVER_SERVICE)
        if not isinstance(endpoints, Present):
            return endpoints
        addresses = sorted({address for address, _ in endpoints.value})
        return Present((addresses[0], names.PORT_CANARY)) if addresses else ABSENT

    def _api_server(self) -> Observed[tuple[Address, ...]]:
        service = self._cluster_ip(API_SERVICE)
        endpoints = self._endpoints(API_SERVICE.namespace, API_SERVICE.name)
        if not isinstance(service, Present):
            return service
        if not isinstance(endpoints, Present):
            return endpoints
        return Present(((service.value, 443), *sorted(set(endpoints.value))))

    def _runtime_classes(self) -> Observed[Mapping[str, str]]:
        if not self._cache.is_listed(RUNTIME_CLASS):
            return Unknown("the RuntimeClasses were not listed yet")
        found = {each["metadata"]["name"]: str(each.get("handler", "")) for each in self._cache.all(RUNTIME_CLASS)}
        return Present(dict(sorted(found.items())))

    def _of_nodes(self, part: Callable[[tuple[int, tuple[str, ...], Mapping[str, Node]]], T]) -> Observed[T]:
        """Kept between passes: there may be thousands of nodes, and every pass wants this."""
        if not self._cache.is_listed(NODE):
            return Unknown("the Nodes were not listed yet")
        revision = self._cache.revision(NODE)
        if self._nodes[0] != revision:
            there = list(self._cache.all(NODE))
            addresses = tuple(sorted({text for node in there for text in _ips(node)}))
            self._nodes = (revision, addresses, {node["metadata"]["name"]: _node(node) for node in there})
        return Present(part(self._nodes))

    def _cluster_ip(self, reference: Reference) -> Observed[str]:
        service = self._services.get(reference, NOT_READ)
        if not isinstance(service, Present):
            return service
        address = service.value.get("spec", {}).get("clusterIP")
        return Present(address) if address and address != "None" else ABSENT

    def _endpoints(self, namespace: str, service: str) -> Observed[tuple[Address, ...]]:
        if not self._cache.is_listed(ENDPOINT_SLICE):
            return Unknown("the EndpointSlices were not listed yet")
        slices = self._cache.select(ENDPOINT_SLICE, "service", f"{namespace}/{service}")
        return Present(tuple(found for each in slices for found in _ready(each)))


def slice_service(endpoint_slice: KubeObject) -> tuple[str, ...]:
    """Index of EndpointSlices by `namespace/service`."""
    metadata = endpoint_slice["metadata"]
    service = (metadata.get("labels") or {}).get(SERVICE_OF_SLICE)
    return (f"{metadata.get('namespace', '')}/{service}",) if service else ()


def _ips(node: KubeObject) -> list[str]:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return [each["address"] for each in addresses if each.get("type") in ("InternalIP", "ExternalIP")]


def _node(node: KubeObject) -> Node:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    said = [each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"]
    taints = (
        Taint(str(each.get("key") or ""), str(each.get("value") or ""), str(each.get("effect") or ""))
        for each in spec.get("taints") or ()
    )
    return Node(
        is_cordoned=bool(spec.get("unschedulable")),
        # A node that says nothing of it has just joined, or is no kubelet's: neither is a lost one.
        is_ready=all(word == "True" for word in said),
        labels=node["metadata"].get("labels") or {},
        taints=tuple(taints),
    )


def _ready(endpoint_slice: KubeObject) -> list[Address]:
    ports: list[Mapping[str, Any]] = endpoint_slice.get("ports") or []
    return [
        (address, port["port"])
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
        for port in ports
        if port.get("port")
    ]


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
