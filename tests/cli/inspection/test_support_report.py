"""`fleetwright report`: the archive, with an API over HTTP and a program that is kubectl, and its redaction."""

import json
import tarfile
import tracemalloc
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
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl
from tests.support.http_server import serve_in_thread

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_api import names
from fleetwright_cli.inspection.log_reading import ContainerRun, read_container_log
from fleetwright_cli.inspection.support_report import redact_log

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSWORD = "tomato-soup-99"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC\nAQEAfoobar\n-----END RSA PRIVATE KEY-----"
BODY = PEM.split("\n")[2:]
Report = Callable[..., CompletedProcess[str]]
AGENT = {
    "metadata": {"name": "desk", "namespace": "team", "annotations": {"note": "internal-note"}},
    "spec": {"instructions": "confidential-instructions"},
    "status": {
        "installation": "system/fleetwright-operator",
        "conditions": [{"type": "Ready", "status": "False", "message": f"401: Bearer {TOKEN}"}],
        "credentials": {"expires": "2026-12-01T00:00:00Z"},
        "clients": [{"name": "default", "secret": "desk-client-default"}],
    },
}


def labels(kind: str, name: str, component: str) -> dict[str, str]:
    return {**names.labels(kind, name), names.COMPONENT: component}


DESK = labels(names.AGENT, "desk", "agent")


def pod(
    name: str,
    container: str,
    *,
    namespace: str = "team",
    restarts: int = 0,
    labels: dict[str, str] = DESK,
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": container, "env": [{"name": "X", "value": "plain-env-value"}]}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": container, "restartCount": restarts}]},
    }


def event(kind: str, name: str, message: str = "", *, namespace: str = "team", **about: str) -> dict[str, Any]:
    involved = {"kind": kind, "name": name, "namespace": namespace, **about}
    head = {"metadata": {"namespace": namespace}}
    return {**head, "involvedObject": involved, "reason": "R", "message": message, "type": "Warning"}


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
        event("Agent", "desk", f"pull with password={PASSWORD} fails", apiVersion="fleetwright.dev/v1alpha1"),
        event("Pod", "desk-1", "restarted"),
        event("Pod", "shop-1", "another-program"),
    ]
    (kubectl / "events.json").write_text(json.dumps({"items": events}))
    for plural in ("replicasets.apps", "deployments.apps", "persistentvolumeclaims", "services"):
        (kubectl / f"{plural}.json").write_text(json.dumps({"items": []}))
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
    assert agent["status"]["credentials"] == {"expires": "2026-12-01T00:00:00Z"}
    assert agent["status"]["clients"] == [{"name": "default", "secret": "desk-client-default"}]
    assert [each["object"]["name"] for each in json.loads(files["events.json"])] == ["desk", "desk-1"]
    assert '"message": "task rests"' in files["logs/team/desk-1.agent.log"]
    assert files["logs/team/desk-1.agent.previous.log"] == "Traceback\n"


def test_report_has_the_pods_and_logs_of_the_installation_and_the_pods_of_servers(
    report: Report, kubectl: Path
) -> None:
    chart = {names.MANAGED_BY: "Helm"}
    gateway = {names.NAME: "fleetwright", names.COMPONENT: "gateway"}
    namesake = labels(names.AGENT, "fleetwright-operator", "agent")
    pods = [
        pod("operator-1", "operator", namespace="system", labels={**chart, names.NAME: "fleetwright-operator"}),
        pod("gateway-1", "gateway", namespace="system", labels={**chart, **gateway}),
        pod("namesake-1", "agent", labels=namesake),
        pod("orders-1", "server", labels=labels(names.MCP_SERVER, "orders", "mcpserver")),
        pod("desk-9", "agent", labels={**chart, names.NAME: "desk"}),
    ]
    (kubectl / "pods.json").write_text(json.dumps({"items": pods}))
    for each in pods:
        (kubectl / f"{each['metadata']['name']}.logs").write_text("ready\n")
    report("--file", "r.tar.gz")
    files = read_archive(kubectl / "r.tar.gz")
    shown = [each["metadata"]["name"] for each in json.loads(files["pods.json"])]
    assert shown == ["operator-1", "gateway-1", "namesake-1", "orders-1"]
    assert sorted(name for name in files if name.startswith("logs/")) == [
        "logs/system/gateway-1.gateway.log",
        "logs/system/operator-1.operator.log",
        "logs/team/namesake-1.agent.log",
    ]


def test_report_has_only_events_of_its_own_objects(report: Report, kubectl: Path) -> None:
    def child(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "team", "labels": DESK}}

    (kubectl / "replicasets.apps.json").write_text(json.dumps({"items": [child("desk-7f9c5d")]}))
    (kubectl / "persistentvolumeclaims.json").write_text(json.dumps({"items": [child("desk-memory")]}))
    group = {"apiVersion": "fleetwright.dev/v1alpha1"}
    ours = [
        event("Agent", "gone", **group),
        event("Pod", "desk-1"),
        event("Pod", "desk-7f9c5d-x2x4k"),
        event("ReplicaSet", "desk-7f9c5d"),
        event("Deployment", "desk"),
        event("PersistentVolumeClaim", "desk-memory"),
    ]
    others = [
        event("Pod", "desk-frontend-1"),
        event("Deployment", "desk-frontend"),
        event("Deployment", "desk", namespace="shop"),
        event("Agent", "desk-2", apiVersion="example.com/v1"),
        event("Node", "desk"),
    ]
    (kubectl / "events.json").write_text(json.dumps({"items": ours + others}))
    report("--file", "r.tar.gz", "-A")
    shown = json.loads(read_archive(kubectl / "r.tar.gz")["events.json"])
    assert [each["object"] for each in shown] == [
        {key: each["involvedObject"][key] for key in ("kind", "namespace", "name")} for each in ours
    ]


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
        pytest.param("pods.json", "the pods of agents and McpServers: ", id="pods"),
        pytest.param("replicasets.apps.json", "the ReplicaSet objects of agents: ", id="children"),
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
    ("log", "wanted"),
    [
        pytest.param(f"password={'p4ss' * 600_000}\nsecond\n", "second\n", id="a line of which the end is left"),
        pytest.param(f"password={'p4ss' * 600_000}", "", id="no other line"),
    ],
)
def test_report_drops_a_line_whose_beginning_is_cut(report: Report, kubectl: Path, log: str, wanted: str) -> None:
    (kubectl / "desk-1.logs").write_text(log)
    ended = report("--file", "r.tar.gz")
    assert read_archive(kubectl / "r.tar.gz")["logs/team/desk-1.agent.log"] == wanted
    assert "the log of team/desk-1.agent: lines before" in ended.stderr


@pytest.mark.process
async def test_long_log_needs_little_memory(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\nhead -c 33554432 /dev/zero | tr '\\0' 'x'\necho\necho end\n")
    program.chmod(0o755)
    tracemalloc.start()
    try:
        log = await read_container_log(ContainerRun("n", "p", "c"), place=(), kubectl=str(program), most=65_536)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (log.content, log.is_cut) == (b"end\n", True)
    assert peak < 4 * 1024 * 1024


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
        pytest.param([*BODY, "rest"], "[REDACTED]\nrest\n", id="the end of a key"),
        pytest.param(["a", *BODY, "b"], "[REDACTED]\nb\n", id="the end of a key after other text"),
        pytest.param(["a", *PEM.split("\n")[:-1], "b"], "a\n[REDACTED]\n", id="a key without an end"),
        pytest.param([*PEM.split("\n")[:2], "{}", *BODY, "", "b"], "[REDACTED]\n{}\n\nb\n", id="JSON within a key"),
        pytest.param(
            [*PEM.split("\n"), "x", *BODY], "[REDACTED]\n[REDACTED]\n", id="the end of a second key after a first"
        ),
        pytest.param([f"key: {PEM} - {PEM}."], "key: [REDACTED] - [REDACTED].\n", id="two keys in one line"),
        pytest.param(["[1]", "7"], "[1]\n7\n", id="JSON that is no object"),
        pytest.param(["[" * 100_000], "[" * 100_000 + "\n", id="JSON that is nested too deeply"),
    ],
)
def test_log_is_redacted_by_lines_and_across_them(lines: list[str], wanted: str) -> None:
    assert redact_log(lines, Redactor()) == wanted
