"""The real door to the API server: raw JSON over kubernetes-asyncio's connection layer, failures as `errors.py`.

Of kubernetes-asyncio it uses configuration, authentication and the HTTP session, never the models. It retries nothing:
whoever asked looks again, by way of the work queue's back-off. It caches nothing either.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject
from kubernetes_asyncio.config import load_incluster_config, load_kube_config

from sandhold import metrics, names
from sandhold.cluster.answers import Answer, error_of
from sandhold.cluster.kinds import Resource, described, reference_to, resource_of
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject
from sandhold.errors import UnavailableError

REQUEST_SECONDS = 15.0
CONNECTIONS = 32
PAGE = 500
MOST_PAGES = 1000
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
IN_CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
MANAGED = {"fieldManager": names.FIELD_MANAGER}


async def load_configuration(*, in_cluster: bool) -> Configuration:
    """The pod's service account, or the kubeconfig that KUBECONFIG or the home folder names."""
    configuration = Configuration()
    configuration.connection_pool_maxsize = CONNECTIONS
    if in_cluster:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await load_kube_config(client_configuration=configuration, persist_config=False)
    return configuration


def is_in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return IN_CLUSTER_TOKEN.exists()


@dataclass(frozen=True, slots=True)
class _Request:
    """One request: `what` says it in words, for messages."""

    method: str
    resource: Resource
    path: str
    what: str
    body: object = None
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON

    @property
    def verb(self) -> str:
        """The verb as metrics name it."""
        return "apply" if self.content_type == APPLY_PATCH else self.method.lower()


class KubeDoor:
    """`Door` over one bounded pool of connections. Made inside a running event loop; to be closed."""

    def __init__(self, configuration: Configuration, request_seconds: float = REQUEST_SECONDS) -> None:
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._timeout = aiohttp.ClientTimeout(total=request_seconds)

    async def close(self) -> None:
        """Close every connection."""
        await self._rest.close()

    async def get(self, reference: Reference) -> KubeObject:
        """Read one object."""
        resource, path = _address(reference)
        return await self._send(_Request("GET", resource, path, f"read {described(reference)}"))

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> tuple[Sequence[KubeObject], str]:
        """Read all of a kind, page by page; a list that expires on the way is `UnavailableError`."""
        resource = resource_of(api_version, kind)
        query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        items: list[KubeObject] = []
        for _ in range(MOST_PAGES):
            page = await self._send(_Request("GET", resource, resource.path(namespace), f"list {kind}", query=query))
            items += [{**item, "apiVersion": api_version, "kind": kind} for item in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return items, metadata.get("resourceVersion", "")
            query["continue"] = metadata["continue"]
        raise UnavailableError(f"list {kind}: more than {MOST_PAGES} pages of {PAGE} objects")

    async def create(self, document: KubeObject) -> KubeObject:
        """POST."""
        reference = reference_to(document)
        resource = resource_of(reference.api_version, reference.kind)
        what = f"create {described(reference)}"
        return await self._send(_Request("POST", resource, resource.path(reference.namespace), what, document, MANAGED))

    async def apply(self, document: KubeObject) -> KubeObject:
        """Server-side apply, forced: what we own is as we say, whoever changed it."""
        reference = reference_to(document)
        resource, path = _address(reference)
        query, what = {**MANAGED, "force": "true"}, f"apply {described(reference)}"
        return await self._send(_Request("PATCH", resource, path, what, document, query, APPLY_PATCH))

    async def replace(self, document: KubeObject) -> KubeObject:
        """PUT. Without uid and resourceVersion it would create or overwrite blindly, so it insists on both."""
        reference = reference_to(document)
        resource, path = _address(reference)
        metadata, what = document["metadata"], f"replace {described(reference)}"
        if not metadata.get("uid") or not metadata.get("resourceVersion"):
            raise LookupError(f"{what}: uid and resourceVersion are needed")
        return await self._send(_Request("PUT", resource, path, what, document, MANAGED))

    async def json_patch(
        self, reference: Reference, operations: Sequence[Mapping[str, Any]], subresource: str | None = None
    ) -> KubeObject:
        """JSON patch of an object or of one of its subresources."""
        resource, path = _address(reference)
        where = f"{path}/{subresource}" if subresource else path
        what = f"patch {' '.join(filter(None, ('the', subresource, 'of')))} {described(reference)}"
        return await self._send(_Request("PATCH", resource, where, what, list(operations), MANAGED, JSON_PATCH))

    async def delete(
        self, reference: Reference, uid: str, resource_version: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """DELETE with preconditions."""
        resource, path = _address(reference)
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options: dict[str, Any] = {"preconditions": preconditions, "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._send(_Request("DELETE", resource, path, f"delete {described(reference)}", options))

    async def _send(self, request: _Request) -> dict[str, Any]:
        """Ask once, and give the parsed answer or raise what it means."""
        started, code = time.monotonic(), "none"
        try:
            answer = await self._ask(request)
            code = str(answer.status)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnavailableError(f"{request.what}: {type(error).__name__} {error}".strip()) from error
        finally:
            metrics.API_REQUESTS.labels(request.verb, request.resource.kind, code).inc()
            metrics.API_SECONDS.labels(request.verb).observe(time.monotonic() - started)
        if not 200 <= answer.status < 300:
            raise error_of(answer, request.what, patch_with_tests=request.content_type == JSON_PATCH)
        try:
            return cast("dict[str, Any]", json.loads(answer.body))
        except ValueError as error:
            raise UnavailableError(f"{request.what}: the answer is not JSON") from error

    async def _ask(self, request: _Request) -> Answer:
        url = f"{self._configuration.host}{request.path}" + (f"?{urlencode(request.query)}" if request.query else "")
        headers = {"Content-Type": request.content_type, "Accept": JSON}
        for setting in (await self._configuration.auth_settings()).values():
            headers[setting["key"]] = setting["value"]
        response = await self._rest.request(
            request.method,
            url,
            headers=headers,
            body=request.body,
            _preload_content=False,
            _request_timeout=self._timeout,
        )
        async with response:
            return Answer(response.status, await response.read(), response.headers.get("Retry-After"))


def _address(reference: Reference) -> tuple[Resource, str]:
    resource = resource_of(reference.api_version, reference.kind)
    return resource, resource.path(reference.namespace, reference.name)
