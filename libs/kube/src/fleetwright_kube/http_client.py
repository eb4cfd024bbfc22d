"""The HTTP client of the Kubernetes API, with aiohttp and the credentials from `login`.

Every error response is raised as an error of `errors.py`. After a 401, the token on disk was probably rotated, so the
credentials are read again and the request is repeated once.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from fleetwright_kube.errors import ConflictError, NotFoundError, RetryLaterError, api_error
from fleetwright_kube.port import LEASES, Kept, Listing, Object, Resource

_CHUNK = 100
_CONNECTIONS = 32
_CONNECTIONS_OF_LEASES = 2
_CONNECT_SECONDS = 5
_DISOWNING_TRIES = 5
_PODS = Resource(kind="Pod", group="", version="v1", plural="pods")
_METADATA = "PartialObjectMetadata"
_OF_LEASES = f"/apis/{LEASES.group}/"
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_SILENCE_SECONDS = 150
"""After this time without data, a watch is broken. The API server sends a bookmark about once a minute."""
_KEEPALIVE_SECONDS = 75
"""The time for which idle connections are reused. It is a little shorter than the idle timeout of the API server."""
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class ApiCredentials(Protocol):
    """The part of kopf's ConnectionInfo that this client uses."""

    @property
    def server(self) -> str: ...

    def as_ssl_context(self) -> Any: ...

    def as_http_headers(self) -> dict[str, str]: ...


class _Write(aiohttp.payload.BytesPayload):
    """A request body that is sent only if this process may write at the moment of sending.

    After the decision to write, the request waits for a connection and for the event loop. In the meantime, the process
    may have been paused for longer than the duration of its Lease.
    """

    def __init__(self, body: bytes, may_go: Callable[[], bool]) -> None:
        super().__init__(body)
        self._may_go = may_go

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._may_go():
            raise RetryLaterError(1.0, "this process does not hold the Lease any more")
        await super().write_with_length(writer, content_length)


class KubernetesApi:
    def __init__(
        self,
        login: Callable[[], ApiCredentials],
        *,
        field_manager: str,
        user_agent: str,
        request_seconds: float = 15.0,
        watch_seconds: int = 300,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Args: `may_write` is called when a request with a body is sent, except for requests for Leases."""
        self._login = login
        self._field_manager = field_manager
        self._user_agent = user_agent
        self._may_write = may_write
        self._request_seconds = request_seconds
        self._watch_seconds = watch_seconds
        self._credentials = login()
        self._session = self._connect(connections=_CONNECTIONS)
        # Watches keep their connections open, so in a shared pool they would leave no connection for writes.
        self._watches = self._connect(connections=0)
        # A Lease expires within seconds, so its requests must not wait for a connection of the pool.
        self._leases = self._connect(connections=_CONNECTIONS_OF_LEASES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._watches.close()
        await self._leases.close()

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Kept], namespace: str | None = None
    ) -> Listing[Kept]:
        items: list[Kept] = []
        query = {"limit": str(_CHUNK), **_chosen(resource)}
        while True:
            page = await self._request("GET", resource.path(namespace), query=query, accept=_accept(resource, "List"))
            kind = resource.kind if not resource.metadata_only else _METADATA
            # The items of a list have no apiVersion and kind. The items of an empty list may be null.
            items += [keep({"apiVersion": resource.api_version, "kind": kind, **item}) for item in page["items"] or ()]
            following = page["metadata"].get("continue")
            if not following:
                return Listing(items=items, resource_version=page["metadata"]["resourceVersion"])
            query["continue"] = following

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return await self._request("GET", resource.path(namespace, name), accept=_accept(resource))

    async def create(self, resource: Resource, body: Object) -> Object:
        return await self._request("POST", resource.path(body["metadata"]["namespace"]), body=body)

    async def replace(self, resource: Resource, body: Object) -> Object:
        metadata = body["metadata"]
        return await self._request("PUT", resource.path(metadata["namespace"], metadata["name"]), body=body)

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        path = resource.path(body["metadata"]["namespace"], body["metadata"]["name"])
        query = {"fieldManager": self._field_manager, "force": "true"}
        return await self._request(
            "PATCH", f"{path}/{subresource}" if subresource else path, body=body, query=query, content=_APPLY
        )

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        query = {"fieldManager": self._field_manager}
        return await self._request("PATCH", resource.path(namespace, name), body=patch, query=query, content=_MERGE)

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        body = await self.merge(resource, namespace, name, patch)
        for tries_left in reversed(range(_DISOWNING_TRIES)):
            try:
                disowning = _disowning(self._field_manager, body["metadata"])
                return await self.merge(resource, namespace, name, {"metadata": disowning})
            except ConflictError:  # A controller has written the status in the meantime.
                if not tries_left:
                    raise
                body = await self.get(resource, namespace, name)
        raise AssertionError("the last try returns or raises")

    async def force_apply(self, resource: Resource, body: Object) -> Object:
        metadata = body["metadata"]
        content = {key: value for key, value in body.items() if key not in {"apiVersion", "kind", "metadata"}}
        if strategy := content.get("spec", {}).get("strategy"):
            # If a user chose another strategy, its settings remain and are invalid together with our strategy.
            content["spec"] = {**content["spec"], "strategy": {"rollingUpdate": None, **strategy}}
        patch = {**content, "metadata": {"uid": metadata["uid"]}}
        await self.merge_unowned(resource, metadata["namespace"], metadata["name"], patch)
        return await self.apply(resource, body)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        preconditions = {"uid": uid, "resourceVersion": version}
        options = {"preconditions": preconditions, "propagationPolicy": "Background"}
        try:
            answer = await self._request("DELETE", resource.path(namespace, name), body=options)
        except NotFoundError:
            return {}
        lingers = answer.get("metadata", {}).get("deletionGracePeriodSeconds")
        return {"kind": resource.kind, **answer} if lingers else {}

    async def read_log(self, namespace: str, pod: str, *, container: str, limit: int) -> str:
        query = {"container": container, "tailLines": "1", "limitBytes": str(limit)}
        body = await self._answer("GET", f"{_PODS.path(namespace, pod)}/log", query=query, accept="*/*")
        return body.decode(errors="replace")

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds),
            **_chosen(resource),
        }
        credentials = self._credentials
        url = credentials.server + resource.path(namespace)
        headers = {"Accept": _accept(resource), **credentials.as_http_headers()}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
        async with self._watches.get(url, params=query, headers=headers, timeout=timeout) as answer:
            if answer.status == 401:
                await self._log_in_again(credentials)
            if answer.status >= 400:
                raise await _failure(answer)
            async for line in answer.content:
                try:
                    event = json.loads(line)
                except ValueError:
                    raise aiohttp.ClientPayloadError("the stream ended in the middle of an event") from None
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise api_error(status.get("code", 500), status.get("message", ""))
                yield event["type"], event["object"]

    def _connect(self, *, connections: int) -> aiohttp.ClientSession:
        """Args: `connections` limits the number of concurrent connections; 0 means no limit."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._credentials.as_ssl_context(), limit=connections, keepalive_timeout=_KEEPALIVE_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self._user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            # Each line of a watch contains one object, of up to 1.5 MiB.
            read_bufsize=4 * 1024 * 1024,
        )

    async def _log_in_again(self, refused: ApiCredentials) -> None:
        """Read the credentials again, unless another rejected request has already done so. The session is reused."""
        if self._credentials is refused:
            self._credentials = self._login()

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: dict[str, str] | None = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        answer = await self._answer(method, path, body=body, query=query, content=content, accept=accept)
        parsed: Object = json.loads(answer)
        return parsed

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: dict[str, str] | None = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        # The Lease decides which process may write, so writing the Lease itself is always allowed.
        of_lease = path.startswith(_OF_LEASES)
        session, may_go = (self._leases, lambda: True) if of_lease else (self._session, self._may_write)
        for attempt in range(2):
            data = None if body is None else _Write(_encoded(body), may_go)
            credentials = self._credentials
            headers = {"Accept": accept, "Content-Type": content, **credentials.as_http_headers()}
            url = credentials.server + path
            # Use asyncio's timeout, because aiohttp's loses a cancellation that arrives at the same time.
            async with (
                asyncio.timeout(self._request_seconds),
                session.request(method, url, params=query, data=data, headers=headers) as answer,
            ):
                if answer.status < 400:
                    return await answer.read()
                if answer.status != 401 or attempt:
                    raise await _failure(answer)
            await self._log_in_again(credentials)
        raise AssertionError("the second answer is returned or raised")


def _disowning(field_manager: str, metadata: Object) -> Object:
    """Return a patch that removes the entry of the merge patch from managedFields.

    With this entry, the API server would keep fields that a later apply no longer contains.
    """
    ours = (field_manager, "Update")
    owners = [owner for owner in metadata["managedFields"] if (owner["manager"], owner["operation"]) != ours]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "managedFields": owners}


def _chosen(resource: Resource) -> dict[str, str]:
    selectors = {"labelSelector": resource.selector, "fieldSelector": resource.field}
    return {name: value for name, value in selectors.items() if value}


def _encoded(body: Object) -> bytes:
    """Encode an object as JSON that is also YAML with the same meaning, because the API server parses an apply as YAML.

    YAML has no surrogate pairs, so characters beyond U+FFFF are written unescaped. Characters that YAML treats as line
    breaks or does not allow are escaped.
    """
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found.group()):04x}", _ENCODER.encode(body)).encode()


def _accept(resource: Resource, suffix: str = "") -> str:
    if not resource.metadata_only:
        return "application/json"
    return f"application/json;as={_METADATA}{suffix};g=meta.k8s.io;v=v1"


async def _failure(answer: aiohttp.ClientResponse) -> Exception:
    text = await answer.text(errors="replace")
    try:
        message = str(json.loads(text).get("message", text))
    except (ValueError, AttributeError):
        message = text
    wait = answer.headers.get("Retry-After", "")
    return api_error(answer.status, message[:2000], retry_after=float(wait) if wait.isdigit() else None)
