"""The requests of the cluster client, as an HTTP server receives them."""

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient, Configuration
from tests.support.cli.json_server import JsonServer, serve_json

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serve_json({"kind": "Approval"}) as server:
        yield server


@pytest.mark.process
def test_json_patch_sends_null_inside_of_values(server: JsonServer) -> None:
    with ApiClient(Configuration(host=f"http://127.0.0.1:{server.server_port}")) as api:
        client = ClusterClient(api, "shop")
        value = {"limit": None, "filter": {"until": None, "list": [None]}}
        operations = [{"op": "add", "path": "/spec/arguments", "value": value}]
        assert client.json_patch(names.APPROVAL, "clerk-1", operations) == {"kind": "Approval"}
    path = "/apis/fleetwright.dev/v1alpha1/namespaces/shop/approvals/clerk-1?fieldManager=fleetwright-cli"
    (request,) = server.received
    content_type = request.headers["Content-Type"]
    assert (request.path, content_type, request.body) == (path, "application/json-patch+json", operations)
