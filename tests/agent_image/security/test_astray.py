"""DNS rebinding against a complete agent: no connection reaches a forbidden address."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("astray.py")
OWN = ["unshare", "--net", "--mount"]
ASTRAY = "its name leads to an address that this agent may not send to"


@pytest.fixture(scope="module")
def report(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode:
        lacking = "a network of one's own needs root and unshare"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{lacking}: nobody would notice that this is not tested")
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("astray")
    ended = subprocess.run(
        [*OWN, sys.executable, str(PROGRAM), str(folder)], capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_r10_nobody_came_where_nothing_was_named(report: dict[str, Any]) -> None:
    public = report["seen"].pop("93.184.216.34")
    assert set(report["seen"].values()) == {0}, report["seen"]
    assert public == 2, "the allowed receiver got the notification, and the agent followed no redirect"
    report["seen"]["93.184.216.34"] = public


def test_r10_every_address_that_leads_astray_is_refused_when_it_is_registered(report: dict[str, Any]) -> None:
    assert len(report["refused"]) > 15
    assert set(report["refused"].values()) == {-32602}, report["refused"]


def test_r10_names_that_rebind_and_redirects_are_given_up_when_it_is_delivered(report: dict[str, Any]) -> None:
    assert report["dead"] == ["it redirects: register the address that it redirects to", ASTRAY, ASTRAY]


def test_r10_peers_and_servers_whose_names_lead_astray_are_not_asked(report: dict[str, Any]) -> None:
    said = report["asked"]
    assert len(said) == 6
    assert all("leads to an address that agents may not reach" in each for each in said), said
