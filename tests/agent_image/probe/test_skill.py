"""Skills in git: the commands of the pods check and fetch them from a real `git http-backend` on loopback."""

import json
from http.server import BaseHTTPRequestHandler

import pytest
from tests.support.agent.git_backend import run_git, serve_repositories

from fleetwright_agent.__main__ import main

HEAD = "---\nname: haiku\ndescription: Writes haiku.\n---"


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "served" / "skills"
    (folder / "haiku" / "scripts").mkdir(parents=True)
    (folder / "haiku" / "SKILL.md").write_text(f"{HEAD}\nThree lines.\n")
    (folder / "haiku" / "scripts" / "count.bin").write_bytes(bytes(range(256)))
    (folder / "linked").mkdir()
    (folder / "linked" / "SKILL.md").symlink_to("/etc/passwd")
    run_git(folder, "init", "-q")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def server(process_ring: None, repository):
    with serve_repositories(repository.parent) as (handler, url):
        yield handler, f"{url}/skills/.git"


def source(url: str, commit: str, path: str = "haiku", *more: str) -> list[str]:
    return [f"--url={url}", f"--commit={commit}", f"--path={path}", "--patience=0", *more]


def probe(capsys, *arguments: str) -> tuple[int, dict, str]:
    code = main(["probe", "skill", *arguments])
    said = capsys.readouterr()
    return code, json.loads(said.out.splitlines()[-1]) if code == 0 else {}, said.err


def test_skill_probe_and_fetch_agree_on_a_commit(repository, server, capsys, tmp_path):
    first = run_git(repository, "rev-parse", "HEAD")
    (repository / "haiku" / "SKILL.md").write_text("changed")
    run_git(repository, "commit", "-qam", "two")
    code, report, _ = probe(capsys, *source(server[1], first))
    assert code == 0
    assert report["head"] == HEAD
    assert report["files"] == ["SKILL.md", "scripts/count.bin"]

    into = tmp_path / "mounted"
    into.mkdir()
    fetch = ["fetch", "skill", *source(server[1], first), f"--into={into}", f"--digest={report['digest']}"]
    assert main(fetch) == 0
    assert (into / "SKILL.md").read_text() == f"{HEAD}\nThree lines.\n"
    assert (into / "scripts" / "count.bin").read_bytes() == bytes(range(256))
    assert main(fetch) == 0, "a second start finds the files of the first"
    (into / "SKILL.md").write_text("tampered")
    (into / "scripts" / "count.bin").unlink()
    assert main(fetch) == 0, "it replaces the partial files of a killed fetch"
    assert (into / "SKILL.md").read_text() == f"{HEAD}\nThree lines.\n"
    assert main([*fetch[:-1], f"--digest=sha256:{'0' * 64}"]) == 2
    assert "is expected" in capsys.readouterr().err


def test_skill_probe_finds_an_unreferenced_commit(repository, server, capsys):
    lost = run_git(repository, "rev-parse", "HEAD")
    run_git(repository, "commit", "-q", "--amend", "-m", "another")
    assert probe(capsys, *source(server[1], lost))[0] == 0


def test_skill_probe_reads_a_private_repository_with_its_token(repository, server, capsys, tmp_path):
    server[0].password = "s3cret-token"
    commit = run_git(repository, "rev-parse", "HEAD")
    code, _, says = probe(capsys, *source(server[1], commit))
    assert code == 2
    assert "name a Secret in source.git.secretRef" in says
    (tmp_path / "token").write_text("s3cret-token\n")
    assert probe(capsys, *source(server[1], commit, "haiku", f"--credentials={tmp_path}"))[0] == 0
    (tmp_path / "token").write_text("another")
    code, _, says = probe(capsys, *source(server[1], commit, "haiku", f"--credentials={tmp_path}"))
    assert (code, "check the Secret" in says, "another" in says) == (2, True, False)


def test_skill_probe_of_a_folder_has_the_digest_of_the_commit(repository, server, capsys):
    commit = run_git(repository, "rev-parse", "HEAD")
    fetched = probe(capsys, *source(server[1], commit))[1]
    assert probe(capsys, f"--folder={repository / 'haiku'}")[1] == fetched


@pytest.mark.parametrize(
    ("host", "works"),
    [pytest.param("127.0.0.1", True, id="within its origin"), pytest.param("localhost", False, id="to another host")],
)
def test_skill_probe_follows_redirects_within_one_origin(repository, server, capsys, host, works):
    port = int(server[1].split(":")[2].partition("/")[0])
    usual, asked = server[0].do_GET, []

    def moved(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["Host"])
        if handler.path.startswith("/old/"):
            handler.send_response(301)
            handler.send_header("Location", f"http://{host}:{port}/skills/.git{handler.path.removeprefix('/old')}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            usual(handler)

    server[0].do_GET = moved
    commit = run_git(repository, "rev-parse", "HEAD")
    code, _, says = probe(capsys, *source(f"http://127.0.0.1:{port}/old", commit))
    assert code == (0 if works else 2), says
    assert works or f"redirects to another server, http://{host}:{port}; use its address in source.git.url" in says
    assert set(asked) == {f"127.0.0.1:{port}"}


def _garbled(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", "7")
    handler.end_headers()
    handler.wfile.write(b"no gzip")


def _cut_short(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"001e# service=git-")
    handler.close_connection = True


REFUSED = [
    pytest.param("HEAD", "nowhere", 65, "has no folder 'nowhere'", id="a folder that is not there"),
    pytest.param("HEAD", "haiku/SKILL.md", 65, "has no folder", id="a file instead of a folder"),
    pytest.param("HEAD", "", 65, "is a link or a submodule", id="a link somewhere in it"),
    pytest.param("HEAD", "haiku/scripts", 65, "SKILL.md is missing", id="a folder that is no skill"),
    pytest.param("a" * 40, "haiku", 2, "has no commit", id="a commit that is not there"),
]
"""The commit, the path, the exit code and the message. A fixed commit stays as it is; a missing one may be pushed."""


@pytest.mark.parametrize(("commit", "path", "status", "wanted"), REFUSED)
def test_skill_probe_refuses_an_invalid_skill(repository, server, capsys, commit, path, status, wanted):
    found = run_git(repository, "rev-parse", commit) if commit == "HEAD" else commit
    code, _, says = probe(capsys, *source(server[1], found, path))
    assert code == status
    assert wanted in says


@pytest.mark.process
def test_skill_probe_names_an_unreachable_server(capsys):
    code, _, says = probe(capsys, *source("http://127.0.0.1:9/skills", "a" * 40))
    assert code == 75
    assert "cannot be reached" in says


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        pytest.param(
            lambda handler: handler.send_error(503), "cannot answer now (status 503)", id="it says that it is down"
        ),
        pytest.param(lambda handler: handler.connection.close(), "cannot be reached", id="it hangs up"),
        pytest.param(_garbled, "cannot be reached", id="what comes is garbled on its way"),
        pytest.param(_cut_short, "cannot be reached", id="it hangs up in the middle of an answer"),
    ],
)
def test_skill_probe_treats_server_failures_as_transient(repository, server, capsys, tmp_path, failure, says):
    server[0].do_GET = failure
    commit = run_git(repository, "rev-parse", "HEAD")
    code, _, said = probe(capsys, *source(server[1], commit))
    assert (code, says in said) == (75, True)
    into = tmp_path / "mounted"
    into.mkdir()
    assert main(["fetch", "skill", *source(server[1], commit), f"--into={into}", f"--digest=sha256:{'0' * 64}"]) == 75
    assert says in capsys.readouterr().err
