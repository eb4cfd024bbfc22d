"""An administrator's API client: a bare aiohttp session, so that it can also be the reference of a benchmark."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from tests.support.machine import ceiling

from fleetwright_kube.port import Resource
from fleetwright_operator.kinds.resources import RESOURCES

Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_CLOSING_SECONDS = 0.25
"""As the documentation of aiohttp recommends for sessions with TLS."""
_MORE = (
    Resource(kind="Namespace", group="", version="v1", plural="namespaces", namespaced=False),
    Resource(kind="ResourceQuota", group="", version="v1", plural="resourcequotas"),
    Resource(kind="Role", group="rbac.authorization.k8s.io", version="v1", plural="roles"),
    Resource(kind="RoleBinding", group="rbac.authorization.k8s.io", version="v1", plural="rolebindings"),
    Resource(kind="ClusterRole", group="rbac.authorization.k8s.io", version="v1", plural="clusterroles",
             namespaced=False),
    Resource(kind="ClusterRoleBinding", group="rbac.authorization.k8s.io", version="v1", plural="clusterrolebindings",
             namespaced=False),
    Resource(kind="CustomResourceDefinition", group="apiextensions.k8s.io", version="v1",
             plural="customresourcedefinitions", namespaced=False),
)  # fmt: skip
KINDS = {**RESOURCES, **{resource.kind: resource for resource in _MORE}}


class Refusal(Exception):  # noqa: N818 - what the API server did
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def path_of(kind: str, namespace: str | None = None, name: str | None = None) -> str:
    return KINDS[kind].path(namespace, name)


class Client:
    def __init__(self, server: str, token: str, ca: Path | None, *, connections: int = 32) -> None:
        context = ssl.create_default_context(cafile=str(ca)) if ca else True
        self._server = server
        # Watches hold their connections, so they use a separate pool without a limit.
        self._sessions = [
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=limit),
                headers={"Authorization": f"Bearer {token}"},
                read_bufsize=4 * 1024 * 1024,
                timeout=aiohttp.ClientTimeout(total=ceiling()),
            )
            for limit in (connections, 0)
        ]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for session in self._sessions:
            await session.close()
        # aiohttp returns before the TLS connections are closed. If the event loop ended first, they would stay open.
        await asyncio.sleep(_CLOSING_SECONDS)

    async def request(
        self, method: str, path: str, body: Object | None = None, *, content: str = "application/json"
    ) -> Object:
        return await self.send(
            method, path, None if body is None else json.dumps(body, ensure_ascii=False).encode(), content=content
        )

    async def send(self, method: str, path: str, data: bytes | None, *, content: str) -> Object:
        headers = {"Content-Type": content}
        async with self._sessions[0].request(method, self._server + path, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise Refusal(answer.status, json.loads(text)["message"] if text.startswith("{") else text)
            parsed: Object = json.loads(text)
            return parsed

    async def apply(self, body: Object, *, manager: str = "person") -> Object:
        metadata = body["metadata"]
        path = path_of(body["kind"], metadata.get("namespace"), metadata["name"])
        return await self.request("PATCH", f"{path}?fieldManager={manager}&force=true", body, content=APPLY)

    async def merge(self, kind: str, namespace: str, name: str, patch: Object, *, subresource: str = "") -> Object:
        return await self.request("PATCH", path_of(kind, namespace, name) + subresource, patch, content=MERGE)

    async def delete(self, kind: str, namespace: str | None, name: str) -> None:
        try:
            await self.request("DELETE", path_of(kind, namespace, name))
        except Refusal as refusal:
            if refusal.status != 404:
                raise

    async def find(self, kind: str, namespace: str | None, name: str) -> Object | None:
        try:
            return await self.request("GET", path_of(kind, namespace, name))
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None

    async def list(self, kind: str, namespace: str | None = None) -> Object:
        selector = KINDS[kind].selector
        return await self.request("GET", path_of(kind, namespace) + (f"?labelSelector={selector}" if selector else ""))

    async def watch(
        self, kind: str, *, since: str, sees: Callable[[bytes], bool] = lambda _: True
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield the changes of the kind in the whole cluster whose line passes `sees`, until the caller stops."""
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "3600"}
        if selector := KINDS[kind].selector:
            query["labelSelector"] = selector
        url = self._server + path_of(kind)
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._sessions[1].get(url, params=query, timeout=timeout) as answer:
            if answer.status >= 400:
                raise Refusal(answer.status, await answer.text())
            async for line in answer.content:
                if sees(line):
                    event = json.loads(line)
                    yield event["type"], event["object"]
