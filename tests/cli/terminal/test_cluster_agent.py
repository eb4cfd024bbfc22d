"""An agent in a cluster: the tunnel that kubectl opens, its loss, and a pod that is replaced. kubectl is a program."""

import json
import os
import threading
from pathlib import Path

import pytest
from tests.support.cli.dev_run import assert_running, run_fleetwright, start_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl
from tests.support.machine import ceiling
from tests.support.waiting import wait_until


def test_run_reaches_an_agent_through_a_tunnel(fleet: Fleet, kubectl: Path) -> None:
    ended = run_fleetwright(
        "run", "desk", "-n", "team", "Look up order A-1002.", environment=with_kubectl(fleet, kubectl)
    )
    assert ended.returncode == 0, ended.stderr
    assert "desk lamp" in ended.stdout
    calls = (kubectl / "calls").read_text().splitlines()
    place = "--context c --namespace team"
    assert f"{place} get secret desk-client-default -o json" in calls
    assert f"{place} port-forward --address 127.0.0.1 pod/desk-1 :7870" in calls
    tunnel = int((kubectl / "tunnel").read_text())
    wait_until(lambda: not Path(f"/proc/{tunnel}").exists(), "the tunnel ends with its command")


def test_run_opens_another_tunnel_after_its_end(fleet: Fleet, kubectl: Path) -> None:
    gate, streamed = threading.Event(), threading.Event()
    fleet.model.scripts["[tunnel]"] = ["One. ", streamed.set, lambda: gate.wait(ceiling()), "Two."]
    words = ("run", "desk", "-n", "team", "--output-format", "json", "[tunnel]")
    with start_fleetwright(*words, environment=with_kubectl(fleet, kubectl)) as (process, output):
        assert streamed.wait(ceiling())
        first = int((kubectl / "tunnel").read_text())
        os.kill(first, 9)
        wait_until(
            lambda: int((kubectl / "tunnel").read_text() or first) != first,
            "the command opens another tunnel",
            alive=lambda: assert_running(process),
        )
        gate.set()
        outcome = json.loads(output.read())
        assert process.wait() == 0
    assert outcome["answer"] == "One. Two."


def test_run_without_a_cluster_names_the_remedy(fleet: Fleet, kubectl: Path) -> None:
    (kubectl / "config.json").unlink()
    ended = run_fleetwright("run", "desk", "Hi", environment=with_kubectl(fleet, kubectl), folder=kubectl)
    assert (ended.returncode, "start a fleet with `fleetwright dev`" in ended.stderr) == (4, True), ended.stderr


def test_run_refuses_an_agent_that_does_not_exist(fleet: Fleet, kubectl: Path) -> None:
    (kubectl / "secret.json").unlink()
    (kubectl / "missing").touch()
    ended = run_fleetwright("run", "dsk", "-n", "team", "Hi", environment=with_kubectl(fleet, kubectl))
    assert (ended.returncode, "`kubectl get agents -A` lists" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        pytest.param("secret.json", "secret is forbidden", id="no permission"),
        pytest.param("bin/kubectl", "kubectl is not installed", id="no kubectl"),
        pytest.param("refuse", "unable to forward port", id="the tunnel does not start"),
    ],
)
def test_run_names_what_the_cluster_refuses(fleet: Fleet, kubectl: Path, missing, wanted) -> None:
    path = kubectl / missing
    path.unlink() if path.exists() else path.touch()
    environ = with_kubectl(fleet, kubectl) | {"PATH": str(kubectl / "bin")}
    ended = run_fleetwright("run", "desk", "-n", "team", "Hi", environment=environ)
    assert wanted in ended.stderr
    assert ended.returncode in {1, 4}
    assert "Traceback" not in ended.stderr
