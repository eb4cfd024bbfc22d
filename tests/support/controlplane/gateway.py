"""The gateway as a process beside a real API server, with exactly the chart's rights."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.ports import free_ports
from joserfc.jwk import ECKey
from tests.support.controlplane.administrator import GATEWAY_ACCOUNT, LONG_SECONDS, POLICY_KINDS
from tests.support.machine import ceiling


def token_of(admin: Any, namespace: str, account: str, *audiences: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    spec = {"expirationSeconds": 3600, **({"audiences": list(audiences)} if audiences else {})}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(admin.request("POST", path, asked)["status"]["token"])


@pytest.fixture(scope="module")
def account_token(control_plane: Any, admin: Any, chart_of: Any, kubeconfig: Any) -> str:
    """The token of the gateway's ServiceAccount, whose rights and admission policy come from the chart."""
    for body in chart_of("fleetwright", gateway={"enabled": True}):
        if body["metadata"].get("labels", {}).get("app.kubernetes.io/component") != "gateway":
            continue
        if body["kind"] in {"ServiceAccount", *POLICY_KINDS} or "rbac" in body["apiVersion"]:
            admin.apply(body)
    return token_of(admin, SYSTEM, GATEWAY_ACCOUNT)


@dataclass
class GatewayProcess:
    """A gateway and the ports on which it serves callers and probes."""

    port: int
    ops_port: int

    def status(self, path: str, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._get(f"http://127.0.0.1:{self.port}{path}", headers)

    def is_ready(self) -> bool:
        try:
            return self._get(f"http://127.0.0.1:{self.ops_port}/readyz", {})[0] == 200
        except OSError:
            return False

    @staticmethod
    def _get(url: str, headers: dict[str, str]) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=ceiling()) as answer:
                return answer.status, _parse_body(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parse_body(error.read())


def _parse_body(text: bytes) -> Any:
    return json.loads(text) if text.startswith(b"{") else text


@pytest.fixture
def operator_with_gateway(alone: Any) -> Any:
    """The operator of an installation with a gateway. It writes the cards that the gateway serves."""
    return alone("gated", gateway={"enabled": True})


@pytest.fixture
def gateway(
    control_plane: Any, account_token: str, operator_with_gateway: Any, space: Any, tmp_path: Path
) -> Iterator[GatewayProcess]:
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{**key, "iat": 0}]}))
    (tmp_path / "token").write_text(account_token)
    shutil.copy(control_plane.ca, tmp_path / "ca.crt")
    server = urlsplit(control_plane.server)
    made = GatewayProcess(*free_ports())
    environment = {
        **os.environ,
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "FLEETWRIGHT_GATEWAY_KEYS_FILE": str(tmp_path / "keys.json"),
        "FLEETWRIGHT_GATEWAY_SERVICE_ACCOUNT": str(tmp_path),
        "FLEETWRIGHT_GATEWAY_PORT": str(made.port),
        "FLEETWRIGHT_GATEWAY_OPS_PORT": str(made.ops_port),
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "fleetwright_gateway"], env=environment, stderr=log)
    try:
        space.eventually(made.is_ready, f"the gateway is ready; see {tmp_path / 'log'}", promised=LONG_SECONDS)
        yield made
    finally:
        process.terminate()
        assert process.wait(ceiling()) == 0, (tmp_path / "log").read_text()
