"""`fleetwright team export` and `import`: what the import needs, and conflicts with other field managers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
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
from tests.support.cli.fleet import environment
from tests.support.http_server import serve_in_thread

from fleetwright_cli.cluster.refusals import refusal
from fleetwright_cli.team.bundle import portable
from fleetwright_cli.team.requirements import requirement_lines, requirements_of


def manifest(name: str, kind: str = "Agent", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetwright.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "team"}, "spec": {"instructions": "Help."} | spec,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"model": {"name": "m", "apiKeySecretRef": {"name": "provider", "key": "key"}}},
            {"Secret": ["provider"]},
            id="a Secret",
        ),
        pytest.param({"serviceAccountName": "runner"}, {"ServiceAccount": ["runner"]}, id="a ServiceAccount"),
        pytest.param(
            {"peers": [{"name": "b"}, {"name": "far"}, {"name": "x", "namespace": "other"}]},
            {"Agent": ["far", "other/x"]},
            id="peers outside of the team",
        ),
        pytest.param(
            {"peers": [{"name": "b", "namespace": "team"}, {"name": "b", "namespace": "other"}]},
            {"Agent": ["other/b"]},
            id="a peer with the namespace of the team",
        ),
        pytest.param(
            {"allowedCallers": {"agents": [{"name": "desk", "namespace": "shop"}]}},
            {"Agent": ["shop/desk"]},
            id="a caller outside of the team",
        ),
        pytest.param({"fleet": {"forwardedTo": {"name": "next"}}}, {"Agent": ["next"]}, id="a successor"),
        pytest.param(
            {"mcpServers": [{"name": "orders"}, {"name": "gone"}], "skills": [{"name": "notes"}, {"name": "lost"}]},
            {"McpServer": ["gone"], "Skill": ["lost"]},
            id="objects that do not exist",
        ),
        pytest.param(
            {
                "memory": {"storage": {"storageClassName": "fast"}},
                "workspace": {"image": "i", "runtimeClassName": "gvisor", "storage": {"claim": {"name": "files"}}},
                "podTemplate": {"spec": {"priorityClassName": "low"}},
            },
            {
                "StorageClass": ["fast"],
                "RuntimeClass": ["gvisor"],
                "PriorityClass": ["low"],
                "PersistentVolumeClaim": ["files"],
            },
            id="classes and a volume claim",
        ),
        pytest.param({"memory": {"storage": {"storageClassName": ""}}}, {}, id="no storage class"),
        pytest.param({"instructions": "serviceAccountName: x"}, {}, id="a text that names a field"),
    ],
)
def test_requirements_are_what_the_bundle_does_not_contain(spec, wanted):
    bundle = [manifest("a", **spec), manifest("b"), manifest("orders", "McpServer"), manifest("notes", "Skill")]
    assert requirements_of([portable(each) for each in bundle], "team") == wanted


def test_requirement_lines_name_each_kind_once():
    assert requirement_lines({}) == []
    assert requirement_lines({"Secret": ["a", "b"], "Agent": ["x/y"]})[1:] == ["Secret: a, b", "Agent: x/y"]


def conflict(*causes: dict[str, str]) -> dict[str, Any]:
    return {"kind": "Status", "message": "Apply failed with 1 conflict", "code": 409, "details": {"causes": [*causes]}}


OWNED = {
    "reason": "FieldManagerConflict",
    "message": 'conflict with "argocd-controller" using fleetwright.dev/v1alpha1',
    "field": ".spec.instructions",
}


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        pytest.param(
            409,
            json.dumps(conflict(OWNED, {**OWNED, "field": ".spec.model.name", "message": 'conflict with "kubectl"'})),
            "Agent a: spec.instructions belongs to the field manager argocd-controller,"
            " spec.model.name belongs to the field manager kubectl",
            id="fields of other managers",
        ),
        pytest.param(409, json.dumps({"message": "exists"}), "Agent a: exists (HTTP 409)", id="another conflict"),
        pytest.param(409, '{"message": "x", "details": "y"}', "Agent a: x (HTTP 409)", id="details that are no object"),
        pytest.param(
            409,
            json.dumps({"message": "x", "details": {"causes": ["y", 1]}}),
            "Agent a: x (HTTP 409)",
            id="causes that are no objects",
        ),
        pytest.param(
            409, '{"message": "x", "details": {"causes": 1}}', "Agent a: x (HTTP 409)", id="causes that are no list"
        ),
        pytest.param(403, json.dumps({"message": "forbidden"}), "Agent a: forbidden (HTTP 403)", id="a refusal"),
        pytest.param(502, "<html>", "Agent a: Bad Gateway (HTTP 502)", id="an answer of a proxy"),
        pytest.param(500, "[1]", "Agent a: Bad Gateway (HTTP 500)", id="JSON that is no object"),
    ],
)
def test_refusal_is_one_sentence(status, body, wanted):
    error = refusal("Agent a", status, "Bad Gateway", body)
    assert (error.message, error.status) == (wanted, status)


class Api:
    """The API server, with a team and a GitOps controller that owns the instructions of its lead."""

    def __init__(self) -> None:
        lead = manifest("lead", serviceAccountName="runner", peers=[{"name": "desk", "namespace": "shop"}])
        child = manifest("child", fleet={"parent": {"name": "lead"}}, mcpServers=[{"name": "orders"}])
        child["spec"]["model"] = {"name": "m", "apiKeySecretRef": {"name": "provider", "key": "key"}}
        self.objects = {"agents": [lead, child]}
        self.applied: list[tuple[str, str]] = []
        self.conflict = conflict(OWNED)

    def app(self) -> Starlette:
        place = "/apis/fleetwright.dev/v1alpha1/namespaces/team/{kind}"
        return Starlette(routes=[Route(place, self.list), Route(f"{place}/{{name}}", self.patch, methods=["PATCH"])])

    async def list(self, request: Request) -> Response:
        items = self.objects.get(request.path_params["kind"], [])
        return JSONResponse({"items": items, "metadata": {"resourceVersion": "1"}})

    async def patch(self, request: Request) -> Response:
        name, force = request.path_params["name"], request.query_params["force"]
        if name == "lead" and force == "false":
            return JSONResponse(self.conflict, 409)
        self.applied.append((name, force))
        return JSONResponse({})


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Api, Any]]:
    """Serve the API. Yield it with a function that runs `fleetwright team`."""
    api = Api()
    with serve_in_thread(api.app()) as port:
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            "users": [{"name": "u", "user": {}}],
        }
        (folder / "kubeconfig").write_text(json.dumps(config))

        def run(*words: str, stdin: str = "") -> CompletedProcess[str]:
            environ = environment(folder, KUBECONFIG=str(folder / "kubeconfig"))
            return run_fleetwright("team", *words, environment=environ, text=stdin)

        yield api, run


@pytest.mark.process
def test_export_names_what_the_import_needs(tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, team):
        ended = team("export", "lead")
    wanted = [
        "These objects are not exported. Create them before the import, unless they exist:",
        "Secret: provider",
        "ServiceAccount: runner",
        "Agent: shop/desk",
        "McpServer: orders",
    ]
    assert (ended.returncode, ended.stderr.splitlines()) == (0, wanted)
    assert ended.stdout.splitlines()[:5] == [f"# {line}" for line in wanted]
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(ended.stdout)] == ["lead", "child"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "wanted", "applied"),
    [
        pytest.param(
            [], 1,
            "Error: Agent lead in namespace team: spec.instructions belongs to the field manager argocd-controller."
            " Change the value with the tool that owns the field, remove the field from the file, or take the fields"
            " over with --force-conflicts",
            [], id="refused",
        ),
        pytest.param(["--force-conflicts"], 0, "", [("lead", "true"), ("child", "true")], id="taken over"),
    ],
)  # fmt: skip
def test_import_names_the_owner_of_a_field(tmp_path: Path, words, code, wanted, applied) -> None:
    with cluster(tmp_path) as (api, team):
        text = team("export", "lead").stdout
        ended = team("import", "-f", "-", *words, stdin=text)
    assert (ended.returncode, ended.stderr.strip(), api.applied) == (code, wanted, applied)


@pytest.mark.process
def test_import_recommends_no_force_for_another_conflict(tmp_path: Path) -> None:
    with cluster(tmp_path) as (api, team):
        api.conflict = {"kind": "Status", "message": "the object is being deleted", "code": 409}
        ended = team("import", "-f", "-", stdin=team("export", "lead").stdout)
    wanted = "Error: Agent lead in namespace team: the object is being deleted (HTTP 409)"
    assert (ended.returncode, ended.stderr.strip()) == (1, wanted)
