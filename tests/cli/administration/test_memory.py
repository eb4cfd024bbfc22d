"""`fleetwright memory` against a real agent: of a local fleet, and through kubectl."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet, environment
from tests.support.cli.kubectl import with_kubectl
from tests.support.http_server import serve_in_thread

TASK, END = '{"kind": "task"}\n', '{"kind": "end", "lines": 1}\n'


def _memory(fleet: Fleet, *words: str, stdin: str = "") -> CompletedProcess[str]:
    place = ("--state", str(fleet.state), "desk")
    return run_fleetwright("memory", words[0], *place, *words[1:], environment=environment(fleet.home), text=stdin)


def test_memory_is_exported_and_erased(fleet: Fleet, tmp_path: Path) -> None:
    context = json.loads(fleet.run("--output-format", "json", "Look up order A-1002.").stdout)["contextId"]
    of = ("--owner", "client:default", "--conversation", context)
    exported = _memory(fleet, "export", *of, "--file", str(tmp_path / "export.ndjson"))
    assert exported.returncode == 0, exported.stderr
    lines = [json.loads(line) for line in (tmp_path / "export.ndjson").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["task", "conversation", "session", "auditLine", "end"]
    assert lines[0]["task"]["contextId"] == context
    assert exported.stderr.splitlines()[0].split() == ["KIND", "LINES"]
    assert exported.stdout == ""

    refused = _memory(fleet, "erase", *of, stdin="n\n")
    assert refused.returncode == 1
    assert json.loads(_memory(fleet, "export", *of).stdout.splitlines()[-1])["lines"] == 4
    receipt = json.loads(_memory(fleet, "erase", *of, "--yes", "-o", "json").stdout)
    assert (receipt["contextId"], receipt["erased"]["tasks"], receipt["erased"]["conversations"]) == (context, 1, 1)
    again = _memory(fleet, "erase", *of, "--yes")
    assert receipt["digest"] in again.stdout
    assert json.loads(_memory(fleet, "export", *of).stdout) == {"kind": "end", "lines": 0}


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        pytest.param(["export", "--owner", "nobody"], 1, "owner must be client:<name>", id="owner"),
        pytest.param(["export"], 2, "Missing option '--owner'", id="no owner"),
        pytest.param(["erase", "--owner", "client:default", "--conversation", "", "--yes"], 1, "empty", id="empty"),
    ],
)
def test_memory_names_what_is_wrong(fleet: Fleet, words, code, wanted) -> None:
    ended = _memory(fleet, *words)
    assert (ended.returncode, wanted in ended.stderr) == (code, True), ended.stderr


@pytest.mark.parametrize(
    ("administrators", "code", "wanted"),
    [
        pytest.param(["default"], 0, "", id="the agent names one"),
        pytest.param([], 1, "name a client in spec.auth.administrators", id="the agent names none"),
    ],
)
def test_memory_uses_the_administrator_of_an_agent(fleet: Fleet, kubectl: Path, administrators, code, wanted) -> None:
    agent = {"metadata": {"name": "desk", "namespace": "team"}, "spec": {"auth": {"administrators": administrators}}}
    (kubectl / "agents.fleetwright.dev.json").write_text(json.dumps(agent))
    ended = run_fleetwright(
        "memory", "export", "desk", "-n", "team", "--owner", "client:nobody", environment=with_kubectl(fleet, kubectl)
    )
    assert (ended.returncode, wanted in ended.stderr) == (code, True), ended.stderr
    assert ("get secret desk-client-default" in (kubectl / "calls").read_text()) is bool(administrators)


def test_memory_refuses_a_client_without_the_right(fleet: Fleet, tmp_path: Path) -> None:
    token = json.loads((fleet.state / "tokens.json").read_text())["client.desk.guest"]
    (tmp_path / "token").write_text(token if isinstance(token, str) else token["token"])
    ended = run_fleetwright(
        "memory",
        "export",
        "--url",
        fleet.address["url"],
        "--token-file",
        str(tmp_path / "token"),
        "--owner",
        "client:guest",
        environment=environment(fleet.home),
    )
    assert ended.returncode == 4
    assert "Remedy: name the client in spec.auth.administrators" in ended.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("earlier", "words", "sent", "wanted"),
    [
        pytest.param(None, [], TASK + END, (0, "KIND", TASK + END), id="new file"),
        pytest.param(None, [], TASK, (1, "not complete", None), id="new file, early end"),
        pytest.param("old", [], TASK + END, (1, "--force replaces it", "old"), id="existing file"),
        pytest.param("old", ["--force"], TASK + END, (0, "KIND", TASK + END), id="replaced"),
        pytest.param("old", ["--force"], TASK, (1, "not complete", "old"), id="replaced, early end"),
    ],
)
def test_export_file_is_private_and_complete(tmp_path: Path, earlier, words, sent, wanted) -> None:
    async def export(_: Request) -> Response:
        return Response(sent, media_type="application/x-ndjson")

    folder = tmp_path / "exports"
    folder.mkdir()
    file, token = folder / "export.ndjson", tmp_path / "token"
    token.write_text("secret")
    if earlier is not None:
        file.write_text(earlier)
        file.chmod(0o644)
    with serve_in_thread(Starlette(routes=[Route("/admin/memory", export)])) as port:
        ended = run_fleetwright(
            "memory",
            "export",
            "desk",
            "--owner",
            "client:shop",
            "--url",
            f"http://127.0.0.1:{port}",
            "--token-file",
            str(token),
            "--file",
            str(file),
            *words,
            environment=environment(tmp_path),
        )
    code, message, content = wanted
    assert (ended.returncode, message in ended.stderr) == (code, True), ended.stderr
    assert [each.read_text() for each in folder.iterdir()] == ([] if content is None else [content])
    if content == sent:
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.process
def test_receipt_names_the_erased_forks(tmp_path: Path) -> None:
    async def erase(_: Request) -> Response:
        receipt = {"contextId": "ctx-a", "forks": ["ctx-b", "ctx-c\x1b[31m"], "erased": {"tasks": 3}, "digest": "d"}
        return Response(json.dumps(receipt), media_type="application/json")

    (tmp_path / "token").write_text("secret")
    with serve_in_thread(Starlette(routes=[Route("/admin/memory", erase, methods=["DELETE"])])) as port:
        ended = run_fleetwright(
            "memory",
            "erase",
            "desk",
            "--owner",
            "client:shop",
            "--yes",
            "--conversation",
            "ctx-a",
            "--url",
            f"http://127.0.0.1:{port}",
            "--token-file",
            str(tmp_path / "token"),
            environment=environment(tmp_path),
        )
    rows = [line.split()[:2] for line in ended.stdout.splitlines() if line.startswith("fork")]
    assert [row[1][:5] for row in rows] == ["ctx-b", "ctx-c"], ended.stderr
    assert "\x1b" not in ended.stdout
