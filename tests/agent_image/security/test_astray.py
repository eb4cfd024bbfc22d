"""DNS rebinding against a complete agent: no connection reaches a forbidden address."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.machine import ceiling, is_in_ci

ROOT = Path(__file__).parents[3]
OWN = ["unshare", "--net", "--mount"]
ASTRAY = "its name leads to an address that this agent may not send to"


@pytest.fixture(scope="module")
def report(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode:
        lacking = "a network of one's own needs root and unshare"
        if is_in_ci():
            pytest.fail(f"{lacking}: nobody would notice that this is not tested")
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("astray")
    command = [*OWN, sys.executable, "-m", "tests.agent_image.security.astray", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ceiling(), check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_r10_forbidden_addresses_receive_no_connection(report: dict[str, Any]) -> None:
    public = report["seen"].pop("93.184.216.34")
    assert set(report["seen"].values()) == {0}, report["seen"]
    assert public == 2, "the allowed receiver got the notification, and the agent followed no redirect"
    report["seen"]["93.184.216.34"] = public


def test_r10_push_registration_refuses_forbidden_addresses(report: dict[str, Any]) -> None:
    assert len(report["refused"]) > 15
    assert set(report["refused"].values()) == {-32602}, report["refused"]


def test_r10_push_delivery_gives_up_on_rebinding_and_redirects(report: dict[str, Any]) -> None:
    assert report["dead"] == ["it redirects: register the address that it redirects to", ASTRAY, ASTRAY]


def test_r10_peers_and_servers_at_forbidden_ips_are_refused(report: dict[str, Any]) -> None:
    said = report["asked"]
    assert len(said) == 6
    assert all("leads to an address that agents may not reach" in each for each in said), said
