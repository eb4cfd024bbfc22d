"""The egress proxy of a workspace on a real API server, which gives its Service an address."""

import pytest

pytestmark = pytest.mark.usefixtures("operator")

HOST = {"to": {"host": "registry.example.com"}, "ports": [{"port": 443}], "why": "packages"}
BLOCK = {"to": {"ipBlock": {"cidr": "192.0.2.0/24"}}, "ports": [{"port": 443}]}


def workspace(*egress):
    return {"image": "img", "storage": {"ephemeral": True}, "network": {"egress": list(egress)}}


def variables(space):
    """Return the variables of the shell; None while the Deployment does not exist."""
    found = space.find("Deployment", "coder-workspace")
    if found is None:
        return None
    (shell,) = (each for each in found["spec"]["template"]["spec"]["containers"] if each["name"] == "shell")
    return {each["name"]: each["value"] for each in shell.get("env", ())}


def test_hosts_come_and_go_with_their_proxy(space):
    space.agent("coder", workspace=workspace(HOST, BLOCK))
    found = space.eventually(lambda: variables(space), "the workspace knows its proxy")
    address = space.get("Service", "coder-egress")["spec"]["clusterIP"]
    assert found["HTTPS_PROXY"] == found["http_proxy"] == f"http://{address}:7881"
    assert "192.0.2.0/24" in found["NO_PROXY"]
    space.agent("coder", workspace=workspace(HOST, BLOCK), description="Codes")
    space.wait("Agent", "coder", "Programmed", "True")
    for kind in ("Deployment", "NetworkPolicy"):
        assert space.get(kind, "coder-egress")["metadata"]["generation"] == 1

    space.agent("coder", workspace=workspace(BLOCK))
    space.eventually(lambda: variables(space) == {}, "the shell has no proxy")
    for kind in ("Deployment", "Service", "NetworkPolicy"):
        space.eventually(lambda kind=kind: space.find(kind, "coder-egress") is None, f"{kind} coder-egress is gone")
    left = [{"to": "192.0.2.0/24, TCP 443", "why": "spec.workspace.network.egress"}]
    space.eventually(lambda: _egress(space) == left, "the status names what is left")


def _egress(space):
    return (space.find("Agent", "coder") or {}).get("status", {}).get("workspace", {}).get("egress")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        pytest.param({**HOST, "to": {"host": "https://a.example.com"}}, "name of a host", id="a URL"),
        pytest.param({**HOST, "to": {"host": "10.0.0.1"}}, "for an IP address use ipBlock", id="an address"),
        pytest.param({**HOST, "to": {"host": "a..example.com"}}, "labels of 1 to 63", id="an empty label"),
        pytest.param({**HOST, "to": {"host": f"{'a' * 64}.example.com"}}, "labels of 1 to 63", id="a long label"),
        pytest.param({**HOST, "to": {**HOST["to"], **BLOCK["to"]}}, "needs either host", id="host and range"),
        pytest.param({**HOST, "to": {}}, "needs either host", id="nothing"),
        pytest.param({**HOST, "ports": [{"port": 53, "protocol": "UDP"}]}, "over TCP only", id="UDP"),
    ],
)
def test_unusable_host_is_refused_by_the_api_server(space, refusal, entry, says):
    with pytest.raises(refusal, match=says):
        space.agent("coder", workspace=workspace(entry))
