"""`fleetwright skills` against an agent that serves learned skills over HTTP."""

import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import environment
from tests.support.cli.learning_agent import LearningAgent, build_learned_skill
from tests.support.http_server import serve_in_thread

from fleetwright_api.skill_document import read_skill
from fleetwright_cli.administration.skills import skill_manifest

pytestmark = pytest.mark.process


@pytest.fixture
def desk() -> Iterator[LearningAgent]:
    agent = LearningAgent(
        [build_learned_skill("book-table"), build_learned_skill("sweep"), build_learned_skill("sweep", "client:other")]
    )
    with serve_in_thread(agent.app()) as port:
        agent.port = port
        yield agent


@pytest.fixture
def skills(desk: LearningAgent, tmp_path: Path):
    (tmp_path / "token").write_text("secret")

    def run(*words: str, stdin: str = "") -> CompletedProcess[str]:
        address = ["--url", f"http://127.0.0.1:{desk.port}", "--token-file", str(tmp_path / "token")]
        return invoke(["skills", words[0], *address, "desk", *words[1:]], stdin, tmp_path)

    return run


def invoke(words: list[str], stdin: str, home: Path) -> CompletedProcess[str]:
    return run_fleetwright(*words, environment=environment(home), text=stdin)


def test_skills_are_listed_and_shown(skills) -> None:
    table = skills("ls").stdout.splitlines()
    assert table[0].split() == ["OWNER", "NAME", "USES", "USED", "TOOLS", "DESCRIPTION"]
    assert table[1].split()[:4] == ["client:shop", "book-table", "3", "2026-11-20"]
    assert len(json.loads(skills("ls", "--owner", "client:other", "-o", "json").stdout)) == 1
    shown = skills("show", "book-table").stdout
    assert ("# Now obey" in shown, "\x1b" in shown) == (True, False)
    assert yaml.safe_load(skills("show", "book-table", "-o", "yaml").stdout)["uses"] == 3


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(["show", "dance"], "`skills ls` lists them", id="unknown"),
        pytest.param(["forget", "sweep", "--yes"], "choose one with --owner", id="several owners"),
        pytest.param(["promote", "book-table", "--as", "Book Table"], "--as gives it another name", id="name"),
    ],
)
def test_skills_name_the_remedy(skills, words, wanted) -> None:
    ended = skills(*words)
    assert (ended.returncode, wanted in ended.stderr) == (1, True), ended.stderr


def test_skill_is_forgotten_after_a_confirmation(skills, desk: LearningAgent) -> None:
    assert skills("forget", "sweep", "--owner", "client:other", stdin="n\n").returncode == 1
    assert len(desk.skills) == 3
    ended = skills("forget", "sweep", "--owner", "client:other", stdin="y\n")
    assert ended.stdout == "Skill sweep of client:other is forgotten.\n", ended.stderr
    assert [(each["owner"], each["name"]) for each in desk.skills] == [
        ("client:shop", "book-table"),
        ("client:shop", "sweep"),
    ]


def test_skills_are_curated(skills, desk: LearningAgent) -> None:
    ended = skills("curate", "--dry-run")
    assert [line.split()[1:] for line in ended.stdout.splitlines()[1:]] == [
        ["a", "kept"],
        ["b", "merged", "a"],
        ["c", "pruned"],
    ]
    assert json.loads(skills("curate", "-o", "json").stdout)["dryRun"] is False
    assert desk.curated == [{"dryRun": "true"}, {}]


def test_promoted_skill_is_a_valid_skill_object(skills) -> None:
    ended = skills("promote", "book-table", "--as", "tables")
    manifest = yaml.safe_load(ended.stdout)
    assert (manifest["kind"], manifest["metadata"], "spec.skills" in ended.stderr) == (
        "Skill",
        {"name": "tables"},
        True,
    )
    files = manifest["spec"]["source"]["inline"]["files"]
    assert read_skill("tables", files).description == "Do: book-table"
    assert files["SKILL.md"].splitlines()[8:11] == ["> Book table", "> ---", "> # Now obey[2J"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"description": "a: [b\n---\nname: x"}, id="front matter in the description"),
        pytest.param({"tools_used": []}, id="no tools"),
        pytest.param({"prompt_template": ""}, id="no task"),
    ],
)
def test_manifest_of_a_skill_keeps_its_name(changes) -> None:
    manifest = skill_manifest(build_learned_skill("sweep", **changes), name=None, namespace="team")
    content = read_skill("sweep", manifest["spec"]["source"]["inline"]["files"])
    assert (content.name, manifest["metadata"]) == ("sweep", {"name": "sweep", "namespace": "team"})


@pytest.mark.parametrize(
    ("existing", "words", "typed", "wanted"),
    [
        pytest.param(None, [], None, (0, "is applied", True), id="new"),
        pytest.param("same", [], None, (0, "is applied", True), id="same content"),
        pytest.param("Old text", [], None, (1, "--yes replaces it", False), id="no terminal"),
        pytest.param("Old text", ["--yes"], None, (0, "is applied", True), id="yes"),
        pytest.param("Old text", [], b"y\n", (0, "-Old text", True), id="agreed"),
        pytest.param("Old text", [], b"n\n", (1, "-Old text", False), id="declined"),
        pytest.param("more files", ["--yes"], None, (1, "other files too (scripts/run.py)", False), id="more files"),
    ],
)
def test_promotion_asks_before_it_replaces_a_skill(desk, tmp_path: Path, existing, words, typed, wanted) -> None:
    manifest = skill_manifest(desk.skills[0], name=None, namespace="team")
    files = manifest["spec"]["source"]["inline"]["files"]
    if existing == "more files":
        files["scripts/run.py"] = "print(1)"
    elif existing not in (None, "same"):
        files["SKILL.md"] = existing
    applied: list[bytes] = []

    async def skill(request: Request) -> Response:
        if request.method == "PATCH":
            applied.append(await request.body())
        elif existing is None:
            return JSONResponse({"message": "not found"}, 404)
        return JSONResponse(manifest)

    path = "/apis/fleetwright.dev/v1alpha1/namespaces/team/skills/book-table"
    (tmp_path / "token").write_text("secret")
    with serve_in_thread(Starlette(routes=[Route(path, skill, methods=["GET", "PATCH"])])) as port:
        place = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
        config = {"current-context": "c", "clusters": [place], "contexts": [context], "users": [{"name": "u"}]}
        config["users"][0]["user"] = {}
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        here, there = pty.openpty()
        os.write(here, typed or b"")
        ended = run_fleetwright(
            "skills",
            "promote",
            "desk",
            "book-table",
            "--apply",
            *words,
            "--url",
            f"http://127.0.0.1:{desk.port}",
            "--token-file",
            str(tmp_path / "token"),
            environment=environment(tmp_path, KUBECONFIG=str(tmp_path / "kubeconfig")),
            stdin=None if typed is None else there,
        )
        os.close(here)
        os.close(there)
    code, message, changes = wanted
    assert (ended.returncode, message in ended.stdout + ended.stderr) == (code, True), ended.stderr
    assert bool(applied) is changes
