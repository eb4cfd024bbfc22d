"""Skills in git: the commands of the pods check and fetch them from a real `git http-backend` on loopback."""

import base64
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleetwright_agent.__main__ import main

# The library does not close responses that it rejects. The command exits anyway.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
HEAD = "---\nname: haiku\ndescription: Writes haiku.\n---"


def git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout.strip()


class Backend(BaseHTTPRequestHandler):
    """A CGI host for `git http-backend`; if it has a password, it requires the password."""

    root: Path
    password = ""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    def _serve(self, body: bytes) -> None:
        wanted = f"Basic {base64.b64encode(f'git:{self.password}'.encode()).decode()}"
        if self.password and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "served" / "skills"
    (folder / "haiku" / "scripts").mkdir(parents=True)
    (folder / "haiku" / "SKILL.md").write_text(f"{HEAD}\nThree lines.\n")
    (folder / "haiku" / "scripts" / "count.bin").write_bytes(bytes(range(256)))
    (folder / "linked").mkdir()
    (folder / "linked" / "SKILL.md").symlink_to("/etc/passwd")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def server(process_ring: None, repository):
    handler = type("Handler", (Backend,), {"root": repository.parent})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"http://127.0.0.1:{server.server_address[1]}/skills/.git"
        server.shutdown()


def source(url: str, commit: str, path: str = "haiku", *more: str) -> list[str]:
    return [f"--url={url}", f"--commit={commit}", f"--path={path}", "--patience=0", *more]


def probe(capsys, *arguments: str) -> tuple[int, dict, str]:
    code = main(["probe", "skill", *arguments])
    said = capsys.readouterr()
    return code, json.loads(said.out.splitlines()[-1]) if code == 0 else {}, said.err


def test_skill_probe_and_fetch_agree_on_a_commit(repository, server, capsys, tmp_path):
    first = git(repository, "rev-parse", "HEAD")
    (repository / "haiku" / "SKILL.md").write_text("changed")
    git(repository, "commit", "-qam", "two")
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
    lost = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-q", "--amend", "-m", "another")
    assert probe(capsys, *source(server[1], lost))[0] == 0


def test_skill_probe_reads_a_private_repository_with_its_token(repository, server, capsys, tmp_path):
    server[0].password = "s3cret-token"
    commit = git(repository, "rev-parse", "HEAD")
    code, _, says = probe(capsys, *source(server[1], commit))
    assert code == 2
    assert "name a Secret in source.git.secretRef" in says
    (tmp_path / "token").write_text("s3cret-token\n")
    assert probe(capsys, *source(server[1], commit, "haiku", f"--credentials={tmp_path}"))[0] == 0
    (tmp_path / "token").write_text("another")
    code, _, says = probe(capsys, *source(server[1], commit, "haiku", f"--credentials={tmp_path}"))
    assert (code, "check the Secret" in says, "another" in says) == (2, True, False)


def test_skill_probe_of_a_folder_has_the_digest_of_the_commit(repository, server, capsys):
    commit = git(repository, "rev-parse", "HEAD")
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
    commit = git(repository, "rev-parse", "HEAD")
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
    pytest.param("HEAD", "nowhere", "has no folder 'nowhere'", id="a folder that is not there"),
    pytest.param("HEAD", "haiku/SKILL.md", "has no folder", id="a file instead of a folder"),
    pytest.param("HEAD", "", "is a link or a submodule", id="a link somewhere in it"),
    pytest.param("HEAD", "haiku/scripts", "SKILL.md is missing", id="a folder that is no skill"),
    pytest.param("a" * 40, "haiku", "has no commit", id="a commit that is not there"),
]


@pytest.mark.parametrize(("commit", "path", "wanted"), REFUSED)
def test_skill_probe_refuses_an_invalid_skill(repository, server, capsys, commit, path, wanted):
    found = git(repository, "rev-parse", commit) if commit == "HEAD" else commit
    code, _, says = probe(capsys, *source(server[1], found, path))
    assert code == 2
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
            lambda handler: handler.send_error(503), "does not answer as a git server", id="it says that it is down"
        ),
        pytest.param(lambda handler: handler.connection.close(), "cannot be reached", id="it hangs up"),
        pytest.param(_garbled, "cannot be reached", id="what comes is garbled on its way"),
        pytest.param(_cut_short, "cannot be reached", id="it hangs up in the middle of an answer"),
    ],
)
def test_skill_probe_treats_server_failures_as_transient(repository, server, capsys, tmp_path, failure, says):
    server[0].do_GET = failure
    commit = git(repository, "rev-parse", "HEAD")
    code, _, said = probe(capsys, *source(server[1], commit))
    assert (code, says in said) == (75, True)
    into = tmp_path / "mounted"
    into.mkdir()
    assert main(["fetch", "skill", *source(server[1], commit), f"--into={into}", f"--digest=sha256:{'0' * 64}"]) == 75
    assert says in capsys.readouterr().err
