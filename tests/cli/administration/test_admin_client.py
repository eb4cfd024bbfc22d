"""Requests to the administrators' endpoints, without a network."""

import io
import json

import httpx
import pytest

from fleetwright_cli.administration.admin_client import AdminClient
from fleetwright_cli.administration.memory import export_memory
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, FixedEndpoint
from fleetwright_cli.terminal.transport.errors import AgentUnauthorized, AgentUnreachable, RequestError, TransportError


def client(answer):
    endpoint = FixedEndpoint(AgentTarget("http://desk", "secret-token"))
    return AdminClient(endpoint, transport=httpx.MockTransport(answer))


def ndjson(*lines):
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.mark.parametrize(
    ("status", "body", "error", "wanted"),
    [
        pytest.param(401, "", AgentUnauthorized, "check --token-file or --client", id="token"),
        pytest.param(403, '{"error": {"message": "No."}}', AgentUnauthorized, "No. Remedy: name the", id="client"),
        pytest.param(404, "not found", RequestError, "its image is older", id="old agent"),
        pytest.param(503, '{"error": "Later."}', AgentUnreachable, "Later.", id="busy"),
        pytest.param(400, "[1]", RequestError, "HTTP 400", id="no sentence"),
        pytest.param(400, "[" * 100_000, RequestError, "HTTP 400", id="a refusal that is nested too deeply"),
        pytest.param(200, "[1]", RequestError, "something else than a JSON object", id="no object"),
        pytest.param(200, "[" * 100_000, RequestError, "something else than a JSON object", id="nested too deeply"),
    ],
)
async def test_admin_client_explains_a_refusal(status, body, error, wanted):
    connection = client(lambda request: httpx.Response(status, text=body))
    with pytest.raises(error, match=wanted) as raised:
        await connection.call("DELETE", "/admin/memory", {})
    assert "secret-token" not in str(raised.value)
    await connection.close()


async def test_admin_client_explains_a_body_that_is_not_compressed_as_declared():
    headers = {"Content-Encoding": "gzip"}
    connection = client(lambda request: httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"plain")))
    with pytest.raises(AgentUnreachable, match=r"no usable answer from http://desk$"):
        await connection.call("GET", "/admin/tasks", {})
    await connection.close()


@pytest.mark.parametrize(
    ("body", "complete"),
    [
        pytest.param(ndjson({"kind": "fact"}, {"kind": "end", "lines": 1}), True, id="complete"),
        pytest.param(ndjson({"kind": "fact"}), False, id="no end"),
        pytest.param(ndjson({"kind": "end", "lines": 1}), False, id="a line is missing"),
        pytest.param('{"kind": "fa', False, id="half a line"),
        pytest.param("[" * 100_000, False, id="nested too deeply"),
        pytest.param("", False, id="nothing"),
    ],
)
async def test_export_is_refused_if_it_is_not_complete(body, complete):
    connection, output = client(lambda request: httpx.Response(200, text=body)), io.BytesIO()
    if complete:
        assert await export_memory(connection, {"owner": "client:a"}, output) == {"fact": 1}
        assert output.getvalue().decode() == body
    else:
        with pytest.raises(TransportError):
            await export_memory(connection, {"owner": "client:a"}, output)
    await connection.close()
