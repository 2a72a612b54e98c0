"""Requests to the API server for the command line, failures as `CliError`. It retries nothing and caches nothing.

Not the operator's door: that one writes as the field manager `sandhold`, and what a person changes is a person's.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, cast
from urllib.parse import urlencode

import aiohttp
from kubernetes_asyncio.client.rest import RESTClientObject

from sandhold.cli.connection import Connection
from sandhold.cli.failures import Asked, CliError, answered, unreachable
from sandhold.cluster.kinds import RESOURCES

Object = dict[str, Any]
REQUEST_SECONDS = 15.0
CONNECT_SECONDS = 10.0
PAGE = 500
MOST_PAGES = 200
MOST_LINE = 8 << 20
FIELD_MANAGER = "sandhold-cli"
_PATCH = "application/merge-patch+json"
_NETWORK = (aiohttp.ClientError, OSError, TimeoutError)


class Api:
    """One API server, for as long as the context lasts."""

    def __init__(self, connection: Connection) -> None:
        self.configuration = connection.configuration
        self.namespace = connection.namespace
        try:
            self._rest = RESTClientObject(connection.configuration)
        except OSError as error:
            step = "correct certificate-authority, client-certificate or client-key of the kubeconfig"
            raise CliError(f"kubeconfig: a certificate cannot be used: {error}", step) from error
        self.host = str(connection.configuration.host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._rest.close()

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        """Read one object."""
        return await self._call("GET", _asked("get", kind, namespace, name))

    async def list_all(self, kind: str, namespace: str | None, **selectors: str) -> list[Object]:
        """Read all of a kind, in one namespace or in all: `labels` and `fields` select."""
        asked = _asked("list", kind, namespace or "")
        query = {"limit": str(PAGE)}
        query |= {f"{key.removesuffix('s')}Selector": text for key, text in selectors.items() if text}
        found: list[Object] = []
        for _ in range(MOST_PAGES):
            page = await self._call("GET", asked, query=query)
            found += page.get("items") or []
            if not (page.get("metadata") or {}).get("continue"):
                return found
            query["continue"] = page["metadata"]["continue"]
        raise CliError(f"{asked}: more than {MOST_PAGES * PAGE}", "name a namespace with -n")

    async def patch(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into an object."""
        asked, query = _asked("patch", kind, namespace, name), {"fieldManager": FIELD_MANAGER}
        return await self._call("PATCH", asked, body=change, query=query, content_type=_PATCH)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete this very object, and no later one of its name."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        await self._call("DELETE", _asked("delete", kind, namespace, name), body=body)

    async def watch(
        self, kind: str, namespace: str, name: str, version: str
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Events of one object from a version on, until the server ends the watch."""
        asked = _asked("watch", kind, namespace, name)
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "resourceVersion": version}
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": "300"}
        async with self.stream(asked, _collection(kind, namespace), query) as content:
            while line := await _line(content, self.host):
                event = json.loads(line)
                yield str(event.get("type")), event.get("object") or {}

    @asynccontextmanager
    async def stream(self, asked: Asked, path: str, query: Mapping[str, str]) -> AsyncIterator[aiohttp.StreamReader]:
        """An answer that goes on."""
        url = f"{self.host}{path}?{urlencode(query)}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            response = await self._rest.request(
                "GET", url, headers=await self._headers(), _preload_content=False, _request_timeout=timeout
            )
        except _NETWORK as error:
            raise unreachable(self.host, error) from error
        async with response:
            if response.status != 200:
                raise answered(response.status, await response.read(), asked)
            yield response.content

    @asynccontextmanager
    async def websocket(
        self, asked: Asked, path: str, query: list[tuple[str, str]], protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A websocket."""
        headers = await self._headers()
        headers.pop("Content-Type")
        url = f"{self.host}{path}?{urlencode(query)}"
        options: dict[str, Any] = {"proxy": self._rest.proxy} if self._rest.proxy else {}
        if self._rest.server_hostname:
            options["server_hostname"] = self._rest.server_hostname
        try:
            socket = await self._rest.pool_manager.ws_connect(
                url, headers=headers, protocols=protocols, heartbeat=30, max_msg_size=MOST_LINE, **options
            )
        except aiohttp.WSServerHandshakeError as error:
            raise answered(error.status, await self._said(url, error), asked) from error
        except _NETWORK as error:
            raise unreachable(self.host, error) from error
        async with socket:
            yield socket

    async def _said(self, url: str, error: aiohttp.WSServerHandshakeError) -> bytes:
        """Why a websocket was refused. The library drops the words; a plain request starts nothing and hears them."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        try:
            response = await self._rest.request(
                "GET", url, headers=await self._headers(), _preload_content=False, _request_timeout=timeout
            )
            async with response:
                body = await response.read()
                return bytes(body) if response.status == error.status else error.message.encode()
        except _NETWORK:
            return error.message.encode()

    async def _call(
        self,
        method: str,
        asked: Asked,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        resource = RESOURCES[asked.kind]
        path = resource.path(asked.namespace or None, asked.name or None)
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = await self._rest.request(
                method,
                url,
                headers={**await self._headers(), "Content-Type": content_type},
                body=body,
                _preload_content=False,
                _request_timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS),
            )
            async with response:
                status, content = response.status, await response.read()
        except _NETWORK as error:
            raise unreachable(self.host, error) from error
        if not 200 <= status < 300:
            raise answered(status, content, asked)
        try:
            return cast("Object", json.loads(content))
        except ValueError as error:
            raise unreachable(self.host, error) from error

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json", "User-Agent": FIELD_MANAGER}
        for setting in (await self.configuration.auth_settings()).values():
            headers[setting["key"]] = setting["value"]
        return headers


def _asked(verb: str, kind: str, namespace: str, name: str = "") -> Asked:
    resource = RESOURCES[kind]
    group = f".{resource.group}" if resource.group else ""
    return Asked(verb, f"{resource.plural}{group}", kind, namespace, name)


def _collection(kind: str, namespace: str) -> str:
    return RESOURCES[kind].path(namespace or None)


async def _line(content: aiohttp.StreamReader, host: str) -> bytes:
    try:
        return await content.readline()
    except _NETWORK as error:
        raise unreachable(host, error) from error
    except ValueError as error:
        raise CliError(f"API server {host}: a line of a watch is too long", "report this") from error
