"""`fleetwright audit verify` with the command of the agent's image, on trails that were changed."""

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl

from fleetwright_cli.administration.audit import AuditVerification, recorded_end

TRAIL = "var/lib/fleetwright/audit"


@pytest.fixture
def trail(fleet: Fleet, kubectl: Path) -> Path:
    """Return a copy of a trail with at least two lines, in the folder `root` of the program that is kubectl."""
    for _ in range(2):
        assert fleet.run("Look up order A-1002.").returncode == 0
    (kubectl / "agents.fleetwright.dev.json").write_text("{}")
    copy = kubectl / "root" / TRAIL
    shutil.copytree(fleet.state / "agents/desk" / TRAIL, copy)
    return copy / "audit.jsonl"


def _verify(fleet: Fleet, kubectl: Path, *words: str) -> CompletedProcess[str]:
    environment = with_kubectl(fleet, kubectl, AGENT_ROOT=str(kubectl / "root"))
    return run_fleetwright("audit", "verify", "desk", "-n", "team", *words, environment=environment)


def test_audit_verify_exits_with_the_first_finding(fleet: Fleet, kubectl: Path, trail: Path) -> None:
    whole = _verify(fleet, kubectl)
    assert (whole.returncode, "The audit trail is intact." in whole.stdout) == (0, True), whole.stderr
    assert "not recorded" in whole.stdout
    assert "exec desk-1 -c agent -- fleetwright-agent audit verify" in (kubectl / "calls").read_text()

    recorded = {"status": {"auditTrail": {"lines": 1, "hash": "0" * 64}}}
    (kubectl / "agents.fleetwright.dev.json").write_text(json.dumps(recorded))
    cut = _verify(fleet, kubectl)
    assert (cut.returncode, "MissingEnd" in cut.stdout, "line 1" in cut.stdout) == (15, True, True), cut.stdout
    known = yaml.safe_load(_verify(fleet, kubectl, "-o", "yaml").stdout)
    assert (known["exitCode"], known["broken"][0]["kind"], known["expected"]) == (15, "MissingEnd", f"1:{'0' * 64}")

    # Other tests use the same agent, so its first lines may be theirs.
    trail.write_text(trail.read_text().replace("A-1002", "A-1003", 1))
    altered = _verify(fleet, kubectl, "--expect", f"1:{'0' * 64}", "-o", "json")
    assert (altered.returncode, json.loads(altered.stdout)["broken"][0]["kind"]) == (11, "AlteredContent")


@pytest.mark.parametrize(
    ("objects", "words", "wanted"),
    [
        pytest.param({"pods.json": '{"items": []}'}, [], "no ready pod; wake or resume it", id="no pod"),
        pytest.param({"agents.fleetwright.dev.json": None}, [], "agents.fleetwright.dev is forbidden", id="no right"),
        pytest.param({}, ["--expect", "all"], "you need the right to create pods/exec", id="the command fails"),
    ],
)
def test_audit_verify_names_what_is_missing(fleet: Fleet, kubectl: Path, objects, words, wanted) -> None:
    (kubectl / "agents.fleetwright.dev.json").write_text("{}")
    for name, text in objects.items():
        (kubectl / name).unlink() if text is None else (kubectl / name).write_text(text)
    ended = _verify(fleet, kubectl, *words)
    assert (ended.returncode, wanted in ended.stderr) == (4, True), ended.stderr


def test_audit_report_hides_what_a_terminal_would_interpret():
    broken = [{"kind": "BrokenChain", "message": "\x1b[2Jline 2"}]
    report = AuditVerification("desk", "desk-1", "", 10, {"lines": 2, "head": "ab\x1b", "broken": broken})
    assert "\x1b" not in report.text
    assert recorded_end({}) == ""
