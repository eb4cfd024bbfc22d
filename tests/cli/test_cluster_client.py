"""The requests of the cluster client, as an HTTP server receives them."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from kubernetes.client import ApiClient, Configuration

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient


class Server(ThreadingHTTPServer):
    """Records PATCH requests, and answers each with an empty Approval."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str, str | None, object]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, self.headers["Content-Type"], body))
        answer = json.dumps({"kind": "Approval"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Write nothing to standard error."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.process
def test_json_patch_sends_null_inside_of_values(server: Server) -> None:
    with ApiClient(Configuration(host=f"http://127.0.0.1:{server.server_port}")) as api:
        client = ClusterClient(api, "shop")
        value = {"limit": None, "filter": {"until": None, "list": [None]}}
        operations = [{"op": "add", "path": "/spec/arguments", "value": value}]
        assert client.json_patch(names.APPROVAL, "clerk-1", operations) == {"kind": "Approval"}
    path = "/apis/fleetwright.dev/v1alpha1/namespaces/shop/approvals/clerk-1?fieldManager=fleetwright-cli"
    assert server.received == [(path, "application/json-patch+json", operations)]
