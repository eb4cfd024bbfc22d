"""The adapter against a small HTTP server that answers as an API server does."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.libs.kube.conftest import CONFIG_MAPS, SECRET_METADATA, WIDGETS
from tests.support.waiting import within

from fleetwright_kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    NotFoundError,
)
from fleetwright_kube.http_client import KubernetesApi
from fleetwright_kube.port import LEASES

_IDENTITY: Final = {"field_manager": "fleetwright", "user_agent": "example"}


@dataclass
class Credentials:
    server: str
    token: str

    def as_ssl_context(self) -> bool:
        return True

    def as_http_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass
class Stub:
    """Answers the requests in sequence, and records them."""

    answers: list[web.Response] = field(default_factory=list)
    asked: list[web.Request] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.text())
        return self.answers.pop(0)


def answer(status: int = 200, headers: dict[str, str] | None = None, **body: object) -> web.Response:
    return web.Response(status=status, text=json.dumps(body), content_type="application/json", headers=headers)


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
async def server(process_ring: None, stub) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    async with TestServer(app) as server:
        yield server


@pytest.fixture
async def api(server) -> AsyncIterator[KubernetesApi]:
    tokens = iter(["first", "second", "third"])

    def login() -> Credentials:
        return Credentials(str(server.make_url("")).rstrip("/"), next(tokens))

    async with KubernetesApi(login, **_IDENTITY) as api:
        yield api


async def test_list_is_paginated_and_null_items_are_empty(api, stub):
    stub.answers += [
        answer(metadata={"continue": "more", "resourceVersion": "5"}, items=[{"metadata": {"name": "a"}}]),
        answer(metadata={"resourceVersion": "5"}, items=[{"metadata": {"name": "b"}}]),
        answer(metadata={"resourceVersion": "6"}, items=None),
    ]
    listing = await api.list(CONFIG_MAPS, namespace="shop", keep=dict)
    assert [(item["kind"], item["metadata"]["name"]) for item in listing.items] == [
        ("ConfigMap", "a"),
        ("ConfigMap", "b"),
    ]
    assert stub.asked[0].path == "/api/v1/namespaces/shop/configmaps"
    assert stub.asked[0].query["labelSelector"] == "app=example"
    assert stub.asked[1].query["continue"] == "more"
    assert (await api.list(WIDGETS, keep=dict)).items == []
    assert stub.asked[2].path == "/apis/example.com/v1/widgets"


async def test_secret_metadata_is_requested_without_data(api, stub):
    stub.answers += [answer(metadata={"resourceVersion": "5"}, items=[]), answer(metadata={})]
    await api.list(SECRET_METADATA, keep=dict)
    await api.get(SECRET_METADATA, "shop", "key")
    accepted = [request.headers["Accept"] for request in stub.asked]
    assert accepted[0] == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert accepted[1] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def test_apply_is_forced_with_the_field_manager(api, stub):
    stub.answers.append(answer(metadata={}))
    await api.apply(WIDGETS, {"metadata": {"namespace": "shop", "name": "poet"}}, subresource="status")
    assert stub.asked[0].method == "PATCH"
    assert stub.asked[0].path.endswith("/namespaces/shop/widgets/poet/status")
    assert dict(stub.asked[0].query) == {"fieldManager": "fleetwright", "force": "true"}
    assert stub.asked[0].headers["Content-Type"] == "application/apply-patch+yaml"


LETTERS = [
    pytest.param("🦊 🏳️‍🌈 𝔸", id="beyond the first plane"),
    pytest.param("a\u2028b\u2029c\u0085d", id="ends of lines that are none in JSON"),
    pytest.param("\ufeffa\x7f\x9f\uffff\u202e", id="marks that are nothing to print"),
    pytest.param('tab\t, quote ", back\\slash, line\n, bell\x07', id="what JSON escapes itself"),
]


@pytest.mark.parametrize("text", LETTERS)
async def test_apply_body_parses_equally_as_yaml_and_json(api, stub, text):
    stub.answers.append(answer(metadata={}))
    body = {"metadata": {"namespace": "shop", "name": "c"}, "data": {"a": text}}
    await api.apply(CONFIG_MAPS, body)
    assert json.loads(stub.bodies[0]) == body
    assert yaml.safe_load(stub.bodies[0]) == body


async def test_unauthorized_request_rereads_the_token_once(api, stub):
    stub.answers += [answer(401, message="expired"), answer(metadata={})]
    await api.get(WIDGETS, "shop", "poet")
    assert [request.headers["Authorization"] for request in stub.asked] == ["Bearer first", "Bearer second"]
    stub.answers += [answer(401, message="no"), answer(401, message="still no")]
    with pytest.raises(ApiError, match="still no"):
        await api.get(WIDGETS, "shop", "poet")


ERRORS = [
    pytest.param(404, "gone", NotFoundError, id="missing"),
    pytest.param(409, "modified", ConflictError, id="conflict"),
    pytest.param(410, "too old", GoneError, id="too old"),
    pytest.param(403, "may not", ForbiddenError, id="forbidden"),
    pytest.param(422, "invalid", InvalidRequestError, id="invalid"),
    pytest.param(
        500, "failed to create typed patch object: unknown field", InvalidRequestError, id="an error that will not pass"
    ),
    pytest.param(
        500,
        "failed to convert new object (shop/poet; apps/v1, Kind=Deployment) to proper version: unable to convert"
        " unstructured object to apps/v1, Kind=Deployment: quantities must match the regular expression",
        InvalidRequestError,
        id="a text that is no quantity",
    ),
    pytest.param(500, "etcd is away", ApiError, id="an error that may pass"),
]


@pytest.mark.parametrize(("status", "message", "error"), ERRORS)
async def test_error_status_maps_to_an_exception_class(api, stub, status, message, error):
    stub.answers.append(answer(status, message=message, headers={"Retry-After": "7"}))
    with pytest.raises(ApiError) as raised:
        await api.get(WIDGETS, "shop", "poet")
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.message, raised.value.retry_after) == (status, message, 7.0)


async def test_delete_sends_preconditions_and_ignores_404(api, stub):
    stub.answers.append(answer(404, message="gone"))
    await api.delete(WIDGETS, "shop", "poet", uid="u1", version="7")
    assert json.loads(stub.bodies[0])["preconditions"] == {"uid": "u1", "resourceVersion": "7"}


async def test_watch_yields_events_and_raises_gone_on_410(api, stub):
    lines = [
        {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "7"}}},
        {"type": "ERROR", "object": {"code": 410, "message": "too old"}},
    ]
    stub.answers.append(web.Response(text="".join(json.dumps(line) + "\n" for line in lines)))
    stream = api.watch(WIDGETS, namespace=None, resource_version="6")
    event, body = await anext(stream)
    assert (event, body["metadata"]["name"]) == ("ADDED", "a")
    with pytest.raises(GoneError):
        await anext(stream)
    assert stub.asked[0].query["resourceVersion"] == "6"


async def test_watch_that_ends_within_an_event_is_a_broken_connection(api, stub):
    stub.answers.append(web.Response(text='{"type": "ADDED", "object": {"metadata": {"na'))
    with pytest.raises(aiohttp.ClientPayloadError, match="in the middle of an event"):
        await anext(api.watch(WIDGETS, namespace=None, resource_version="6"))


async def test_merge_releases_its_fields_despite_a_concurrent_write(api, stub):
    """A merge leaves its fields without an owner, even if a controller writes between its two requests."""

    def seen(version: str) -> web.Response:
        managers = [{"manager": "fleetwright", "operation": operation} for operation in ("Apply", "Update")]
        return answer(metadata={"uid": "u", "resourceVersion": version, "managedFields": managers})

    stub.answers += [seen("5"), answer(409, message="modified"), seen("6"), answer(metadata={})]
    await api.merge_unowned(CONFIG_MAPS, "shop", "x", {"metadata": {"labels": {"a": "b"}}})
    assert [request.method for request in stub.asked] == ["PATCH", "PATCH", "GET", "PATCH"]
    left = [{"manager": "fleetwright", "operation": "Apply"}]
    assert json.loads(stub.bodies[-1]) == {"metadata": {"uid": "u", "resourceVersion": "6", "managedFields": left}}


async def test_read_log_requests_the_last_line_as_text(api, stub):
    stub.answers += [web.Response(text='{"tools": []}\n'), answer(400, message="container is waiting to start")]
    assert await api.read_log("shop", "tools-probe-1", container="probe", limit=100) == '{"tools": []}\n'
    assert stub.asked[0].path == "/api/v1/namespaces/shop/pods/tools-probe-1/log"
    assert dict(stub.asked[0].query) == {"container": "probe", "tailLines": "1", "limitBytes": "100"}
    with pytest.raises(InvalidRequestError, match="waiting to start"):
        await api.read_log("shop", "tools-probe-1", container="probe", limit=100)


async def test_delete_returns_an_object_that_is_still_terminating(api, stub):
    stub.answers += [
        answer(metadata={"name": "p", "deletionGracePeriodSeconds": 5}),
        answer(metadata={"name": "p", "deletionGracePeriodSeconds": 0}),
        answer(kind="Status"),
        answer(404, message="gone"),
    ]
    left = [await api.delete(CONFIG_MAPS, "shop", "p", uid="u", version="7") for _ in range(4)]
    assert [bool(each) for each in left] == [True, False, False, False]
    assert left[0]["kind"] == "ConfigMap"


@pytest.mark.process
async def test_lease_requests_do_not_wait_for_other_requests():
    gate, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def handle(request: web.Request) -> web.Response:
        if "leases" not in request.path:
            waiting.release()
            await gate.wait()
        return answer(metadata={"name": "c", "namespace": "n"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server:
        login = partial(Credentials, f"http://{server.host}:{server.port}", "t")
        async with KubernetesApi(login, **_IDENTITY) as api, within("the Lease and all objects are answered"):
            workers = [asyncio.ensure_future(api.get(CONFIG_MAPS, "n", "c")) for _ in range(64)]
            for _ in range(32):
                await waiting.acquire()
            lease = await api.get(LEASES, "n", "c")
            await api.replace(LEASES, lease)
            assert not any(worker.done() for worker in workers)
            gate.set()
            await asyncio.gather(*workers)


@pytest.mark.process
async def test_queued_write_is_dropped_after_the_lease_is_lost():
    """A write that waited for a connection is not sent once another process may write."""
    held, gate, written = [True], asyncio.Event(), []

    async def handle(request: web.Request) -> web.Response:
        if request.method == "GET":
            await gate.wait()
        else:
            written.append(request.path)
        return answer(metadata={"name": "c", "namespace": "n"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server:
        login = partial(Credentials, f"http://{server.host}:{server.port}", "t")
        async with (
            KubernetesApi(login, **_IDENTITY, may_write=lambda: held[0]) as api,
            within("each request is answered or refused"),
        ):
            reading = [asyncio.ensure_future(api.get(CONFIG_MAPS, "n", "c")) for _ in range(32)]
            await asyncio.sleep(0.1)
            body = {"metadata": {"name": "c", "namespace": "n"}}
            writing = asyncio.ensure_future(api.apply(CONFIG_MAPS, body))
            await asyncio.sleep(0.1)
            held[0] = False
            gate.set()
            with pytest.raises(aiohttp.ClientConnectionError, match="does not hold the Lease"):
                await writing
            await asyncio.gather(*reading)
            await api.get(CONFIG_MAPS, "n", "c")
            await api.replace(LEASES, body)
    assert written == ["/apis/coordination.k8s.io/v1/namespaces/n/leases/c"]
