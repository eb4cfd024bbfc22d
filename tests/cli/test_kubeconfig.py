"""Kubeconfigs that the plugin must use as kubectl does: impersonation, token files, proxies and several files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.cli.json_server import JsonServer, serve_json

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.cluster.kubeconfig import impersonation_headers

AS = {
    "as": "alice@example.com",
    "as-uid": "7",
    "as-groups": ["shop", "system:authenticated"],
    "as-user-extra": {"example.com/reason": ["a test"]},
}


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with serve_json({"kind": "AgentList", "items": [], "metadata": {"resourceVersion": "1"}}) as server:
        yield server


@pytest.fixture
def write_kubeconfig(server: JsonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes a kubeconfig for the server, with a user."""

    def write(**user: Any) -> None:
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "shop"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(body))
        # The client reads the variable when it is imported.
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        monkeypatch.setattr("fleetwright_cli.cluster.kubeconfig.KUBE_CONFIG_DEFAULT_LOCATION", str(path))

    return write


def listed_headers(server: JsonServer) -> list[tuple[str, str]]:
    assert ClusterClient.connect(context=None, namespace=None).list(names.AGENT) == []
    (request,) = server.received
    return request.header_lines


@pytest.mark.process
def test_client_impersonates_the_user_of_the_kubeconfig(server: JsonServer, write_kubeconfig: Any) -> None:
    write_kubeconfig(token="t", **AS)
    headers = [each for each in listed_headers(server) if each[0].startswith("Impersonate-")]
    assert headers == [
        ("Impersonate-User", "alice@example.com"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "shop"),
        ("Impersonate-Group", "system:authenticated"),
        ("Impersonate-Extra-example.com%2Freason", "a test"),
    ]


@pytest.mark.process
def test_client_strips_the_newline_of_a_token_file(server: JsonServer, write_kubeconfig: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    write_kubeconfig(tokenFile=str(tmp_path / "token"))
    assert dict(listed_headers(server))["authorization"] == "Bearer abc"


@pytest.mark.process
def test_client_reaches_this_machine_without_the_proxy(
    server: JsonServer, write_kubeconfig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    write_kubeconfig(token="t")
    assert listed_headers(server)


@pytest.mark.process
def test_first_of_several_files_names_the_user(
    server: JsonServer, write_kubeconfig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(token="t", **AS)
    other = tmp_path / "other"
    other.write_text(yaml.safe_dump({"users": [{"name": "me", "user": {"token": "t", "as": "mallory"}}]}))
    paths = os.pathsep.join(map(str, (tmp_path / "kubeconfig", tmp_path / "absent", other)))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", paths)
    monkeypatch.setattr("fleetwright_cli.cluster.kubeconfig.KUBE_CONFIG_DEFAULT_LOCATION", paths)
    assert ("Impersonate-User", "alice@example.com") in listed_headers(server)


@pytest.mark.parametrize("user", [{}, {"token": "t"}, {"as": ""}, {"as-groups": None, "as-user-extra": None}])
def test_user_without_impersonation_has_no_headers(user: dict[str, Any]) -> None:
    assert list(impersonation_headers(user)) == []
