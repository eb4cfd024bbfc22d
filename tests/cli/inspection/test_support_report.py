"""`fleetwright report`: the archive, with an API over HTTP and a program that is kubectl, and its redaction."""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.cli.kubectl import with_kubectl
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.http_server import serve_in_thread

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_cli.inspection.support_report import redact_log

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSWORD = "tomato-soup-99"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC\nAQEAfoobar\n-----END RSA PRIVATE KEY-----"
Report = Callable[..., CompletedProcess[str]]
AGENT = {
    "metadata": {"name": "desk", "namespace": "team", "annotations": {"note": "internal-note"}},
    "spec": {"instructions": "confidential-instructions"},
    "status": {
        "installation": "system/fleetwright-operator",
        "conditions": [{"type": "Ready", "status": "False", "message": f"401: Bearer {TOKEN}"}],
    },
}


def pod(name: str, container: str, *, namespace: str = "team", restarts: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"fleetwright.dev/agent": "desk"}},
        "spec": {"containers": [{"name": container, "env": [{"name": "X", "value": "plain-env-value"}]}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": container, "restartCount": restarts}]},
    }


def event(kind: str, name: str, message: str) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": "team"}
    return {"involvedObject": about, "reason": "R", "message": message, "type": "Warning"}


@pytest.fixture
def report(fleet: Fleet, kubectl: Path) -> Iterator[Report]:
    """Return a function that runs the command in the folder of kubectl, with these objects and logs."""
    listed = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}

    async def answer(request: Request) -> Response:
        items = [AGENT] if request.url.path.endswith("/agents") else []
        return JSONResponse({**listed, "items": items})

    (kubectl / "version.json").write_text(json.dumps({"serverVersion": {"gitVersion": "v1.34.1"}}))
    (kubectl / "agents.fleetwright.dev.json").write_text(json.dumps({"items": [AGENT]}))
    (kubectl / "mcpservers.fleetwright.dev.json").write_text(json.dumps({"items": []}))
    (kubectl / "skills.fleetwright.dev.json").write_text(json.dumps({"items": []}))
    (kubectl / "pods.json").write_text(json.dumps({"items": [pod("desk-1", "agent", restarts=1)]}))
    events = [
        event("Agent", "desk", f"pull with password={PASSWORD} fails"),
        event("Pod", "desk-1", "restarted"),
        event("Pod", "shop-1", "another-program"),
    ]
    (kubectl / "events.json").write_text(json.dumps({"items": events}))
    line = {"level": "info", "message": "task rests", "authorization": PASSWORD, "url": f"https://x:{PASSWORD}@host/"}
    (kubectl / "desk-1.logs").write_text(f"{json.dumps(line)}\nnoise\n{PEM}\n")
    (kubectl / "desk-1.previous").write_text("Traceback\n")
    with serve_in_thread(Starlette(routes=[Route("/{path:path}", answer)])) as port:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            "current-context": "c",
        }
        (kubectl / "kubeconfig").write_text(yaml.safe_dump(config))
        environ = with_kubectl(fleet, kubectl) | {"KUBECONFIG": str(kubectl / "kubeconfig")}

        def run(*words: str) -> CompletedProcess[str]:
            return run_fleetwright("report", *words, environment=environ, folder=kubectl)

        yield run


def read_archive(path: Path) -> dict[str, str]:
    """Return the files of an archive by their path below its only folder."""
    with tarfile.open(path) as archive:
        found = {entry.name: archive.extractfile(entry) for entry in archive}
        assert len({name.partition("/")[0] for name in found}) == 1
        return {name.partition("/")[2]: file.read().decode() for name, file in found.items() if file is not None}


def test_report_is_one_private_archive_of_versions_states_events_and_logs(report: Report, kubectl: Path) -> None:
    ended = report()
    assert ended.returncode == 0, ended.stderr
    (path,) = kubectl.glob("fleetwright-report-*.tar.gz")
    assert (ended.stdout, path.stat().st_mode & 0o777) == (f"{path.name}\n", 0o600)
    files = read_archive(path)
    assert sorted(files) == [
        "README.txt",
        "events.json",
        "logs/team/desk-1.agent.log",
        "logs/team/desk-1.agent.previous.log",
        "objects/agents.json",
        "objects/mcpservers.json",
        "objects/skills.json",
        "pods.json",
        "status.json",
        "versions.json",
    ]
    versions = json.loads(files["versions.json"])
    assert versions["kubernetes"]["serverVersion"]["gitVersion"] == "v1.34.1"
    assert versions["fleetwright"]
    (installation,) = json.loads(files["status.json"])["installations"]
    assert installation["name"] == "system/fleetwright-operator"
    (agent,) = json.loads(files["objects/agents.json"])
    assert agent["status"]["conditions"][0]["message"] == "401: [REDACTED]"
    assert [each["object"]["name"] for each in json.loads(files["events.json"])] == ["desk", "desk-1"]
    assert '"message": "task rests"' in files["logs/team/desk-1.agent.log"]
    assert files["logs/team/desk-1.agent.previous.log"] == "Traceback\n"


def test_report_has_no_secret_and_names_what_it_excludes(report: Report, kubectl: Path) -> None:
    report("--file", "r.tar.gz")
    files = read_archive(kubectl / "r.tar.gz")
    hidden = (TOKEN, PASSWORD, "MIIEow", "AQEAfoobar", "confidential-instructions", "plain-env-value", "internal-note")
    assert not [(name, text) for name, content in files.items() for text in hidden if text in content]
    assert not [word for word in ("secret", "configmap") if word in (kubectl / "calls").read_text().lower()]
    assert "- Secrets and ConfigMaps: the command does not read them" in files["README.txt"]
    assert "Not read, or not complete:\n- nothing" in files["README.txt"]


@pytest.mark.parametrize(
    ("gone", "wanted"),
    [
        pytest.param("version.json", "the versions of Kubernetes: ", id="versions"),
        pytest.param("skills.fleetwright.dev.json", "the Skill objects: ", id="objects"),
        pytest.param("pods.json", "the pods of agents: ", id="pods"),
        pytest.param("events.json", "the Events: ", id="events"),
        pytest.param("desk-1.previous", "the log of team/desk-1.agent.previous: ", id="a log"),
    ],
)
def test_report_goes_on_without_what_it_cannot_read(report: Report, kubectl: Path, gone: str, wanted: str) -> None:
    (kubectl / gone).unlink()
    ended = report("--file", "r.tar.gz")
    assert (ended.returncode, f"Missing: {wanted}" in ended.stderr) == (0, True), ended.stderr
    assert f"- {wanted}" in read_archive(kubectl / "r.tar.gz")["README.txt"]


def test_report_redacts_the_errors_that_it_names(report: Report, kubectl: Path) -> None:
    (kubectl / "events.json").unlink()
    (kubectl / "events.error").write_text(f"error: proxy http://user:{PASSWORD}@proxy refused token {TOKEN}")
    ended = report("--file", "r.tar.gz")
    readme = read_archive(kubectl / "r.tar.gz")["README.txt"]
    for text in (readme, ended.stderr):
        assert "the Events: error: proxy http://[REDACTED]@proxy refused token [REDACTED]" in text
        assert not [secret for secret in (PASSWORD, TOKEN) if secret in text]


def test_report_names_a_log_whose_beginning_is_cut(report: Report, kubectl: Path) -> None:
    (kubectl / "desk-1.logs").write_text("x\n" * 5_000)
    ended = report("--file", "r.tar.gz")
    assert "the log of team/desk-1.agent: lines before the last 5000" in ended.stderr
    assert "--since=24h --tail=5000" in (kubectl / "calls").read_text()


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        pytest.param(["--file", "kubeconfig"], 1, "--force replaces it", id="an existing file"),
        pytest.param(["--since", "long"], 2, "not a duration such as", id="no duration"),
    ],
)
def test_report_names_the_wrong_option(report: Report, words: list[str], code: int, wanted: str) -> None:
    ended = report(*words)
    assert (ended.returncode, wanted in ended.stderr) == (code, True), ended.stderr


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param(["plain", '{"password": "x"}'], 'plain\n{"password": "[REDACTED]"}\n', id="both kinds"),
        pytest.param(["a", *PEM.split("\n"), "b"], "a\n[REDACTED]\nb\n", id="a secret of several lines"),
        pytest.param(["[1]", "7"], "[1]\n7\n", id="JSON that is no object"),
        pytest.param(["[" * 100_000], "[" * 100_000 + "\n", id="JSON that is nested too deeply"),
    ],
)
def test_log_is_redacted_by_lines_and_across_them(lines: list[str], wanted: str) -> None:
    assert redact_log(lines, Redactor()) == wanted
