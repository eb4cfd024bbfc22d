"""Git servers with a private certificate authority, and behind a proxy. Servers, TLS and proxies are real."""

import base64
import socket
import ssl

import pytest
from tests.support.agent.git_backend import run_git, serve_repositories
from tests.support.certificates import certify_loopback
from tests.support.http.proxy import run_proxy
from tests.support.machine import ceiling

from fleetwright_agent.__main__ import main
from fleetwright_agent.commands.fetch.git import GitSource, fetch
from fleetwright_agent.commands.fetch.git_server import GitServer
from fleetwright_agent.config.mounted_files import SourceUnavailable

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxy_of_the_machine(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "served" / "skills"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: haiku\ndescription: Writes haiku.\n---\nThree lines.\n")
    run_git(folder, "init", "-q", "-b", "trunk")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def plain(process_ring: None, repository):
    with serve_repositories(repository.parent) as (handler, url):
        yield handler, f"{url}/skills/.git"


@pytest.fixture
def private(process_ring: None, repository, tmp_path):
    """A server with TLS: its handler, its URL, and a file with its authority."""
    context, public = certify_loopback(tmp_path)
    file = tmp_path / "ca.crt"
    file.write_bytes(public)
    with serve_repositories(repository.parent, context) as (handler, url):
        yield handler, f"{url}/skills/.git", file


@pytest.fixture
def proxy(process_ring: None):
    with run_proxy() as record:
        yield record


@pytest.fixture(params=["probe", "fetch", "clone"])
def read(request, repository, tmp_path, capsys):
    """Run each command that reads a repository, and return its exit code and its errors."""
    into = tmp_path / "into"
    into.mkdir()
    commit = run_git(repository, "rev-parse", "HEAD")
    commands = {
        "probe": ["probe", "skill", f"--commit={commit}"],
        "fetch": ["fetch", "skill", f"--commit={commit}", f"--into={into}", f"--digest=sha256:{'0' * 64}"],
        "clone": ["fetch", "workspace", f"--into={into}"],
    }

    def run(url: str, *more: str) -> tuple[int, str]:
        code = main([*commands[request.param], f"--url={url}", "--patience=0", *more])
        errors = capsys.readouterr().err
        if "the files have the digest" in errors:
            return 0, ""  # The files were fetched; the digest is wrong on purpose.
        return code, errors

    return run


def test_private_authority_is_trusted_if_it_is_declared(read, private):
    _, url, file = private
    assert read(url, f"--ca-file={file}") == (0, "")


@pytest.mark.parametrize(
    ("content", "status", "wanted"),
    [
        pytest.param(None, 75, "name the Secret with its authority in source.git.caSecretRef", id="none is declared"),
        pytest.param(
            "other", 75, "put its authority into the Secret of source.git.caSecretRef", id="another is declared"
        ),
        pytest.param(
            "missing", 2, "the Secret of source.git.caSecretRef has no key 'company.crt'", id="the key is missing"
        ),
        pytest.param("", 2, "no valid PEM under its key 'company.crt'", id="the key is empty"),
        pytest.param("no certificate", 2, "no valid PEM under its key 'company.crt'", id="other text"),
        pytest.param("caf\u00e9", 2, "no valid PEM under its key 'company.crt'", id="no ASCII"),
        pytest.param(
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            2,
            "no valid PEM under its key 'company.crt'",
            id="a certificate that was cut",
        ),
    ],
)
def test_untrusted_server_is_refused_with_the_remedy(read, private, tmp_path, content, status, wanted):
    file = tmp_path / "company.crt"
    if content == "other":
        (tmp_path / "other").mkdir()
        file.write_bytes(certify_loopback(tmp_path / "other")[1])
    elif content not in (None, "missing"):
        file.write_text(content, encoding="utf-8")
    code, errors = read(private[1], *([f"--ca-file={file}"] if content is not None else []))
    assert (code, wanted in errors) == (status, True), errors


def test_authority_of_a_server_leaves_public_authorities_trusted(read, private, tmp_path, monkeypatch):
    """The system's authorities are in a file here, as the variable of OpenSSL names it."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other.crt"
    other.write_bytes(certify_loopback(tmp_path / "other")[1])
    monkeypatch.setenv("SSL_CERT_FILE", str(private[2]))
    assert read(private[1], f"--ca-file={other}") == (0, "")


def credentials(tmp_path, handler) -> str:
    handler.password = "s3cret-token"
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "token").write_text("s3cret-token\n")
    return f"--credentials={folder}"


def test_proxy_tunnels_to_an_encrypted_server(read, private, proxy, tmp_path):
    handler, url, file = private
    secret = credentials(tmp_path, handler)
    assert read(url, f"--ca-file={file}", f"--proxy-url=http://127.0.0.1:{proxy.port}", secret) == (0, "")
    host = url.split("/")[2]
    assert {tuple(head.split()[:2]) for head in proxy.heads} == {("CONNECT", host)}
    encoded = base64.b64encode(b"git:s3cret-token").decode()
    assert not [head for head in proxy.heads if "authorization" in head.lower() or encoded in head]


def test_proxy_forwards_requests_for_a_server_without_encryption(read, plain, proxy):
    assert read(plain[1], f"--proxy-url=http://127.0.0.1:{proxy.port}/") == (0, "")
    assert {head.split()[1].startswith(plain[1]) for head in proxy.heads} == {True}


def test_proxy_never_reads_credentials(read, plain, proxy, tmp_path):
    code, errors = read(plain[1], f"--proxy-url=http://127.0.0.1:{proxy.port}", credentials(tmp_path, plain[0]))
    wanted = f"source.git.secretRef: the proxy http://127.0.0.1:{proxy.port} reads the credentials of an http address"
    assert (code, wanted in errors) == (2, True), errors
    assert proxy.heads == []


def test_proxy_of_the_environment_never_reads_credentials(read, plain, proxy, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    option = credentials(tmp_path, plain[0])
    code, errors = read(plain[1], option)
    assert code == 2
    assert "source.git.secretRef: the proxy of the environment reads the credentials of an http address" in errors
    assert proxy.heads == []
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert read(plain[1], option) == (0, "")


def answer_once(handler, method, status) -> list[int]:
    """Let the server answer its next request with a status. Return a list that is empty after this answer."""
    serve, statuses = getattr(handler, method), [status]

    def answer(self):
        if not statuses:
            serve(self)
            return
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(statuses.pop())
        self.send_header("Content-Length", "0")
        self.end_headers()

    setattr(handler, method, answer)
    return statuses


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("failing", ["do_GET", "do_POST"])
def test_failure_of_the_server_fetches_no_history(read, plain, status, failing):
    """The first request lists references, the second one fetches a commit. Its failure is no reason to fetch all."""
    handler, url = plain
    requests = []

    def fail(self):
        requests.append(self.path)
        self.send_response(status)
        self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()

    setattr(handler, failing, fail)
    code, errors = read(url)
    assert (code, f"{url} cannot answer now (status {status})" in errors) == (75, True), errors
    assert len(requests) == 1


@pytest.mark.parametrize("read", ["probe", "fetch"], indirect=True)
def test_server_that_refuses_one_commit_with_an_error_is_asked_for_the_history(read, plain):
    """A web server answers with 500 if `git http-backend` ends with an error, as for a commit that is no tip."""
    handler, url = plain
    statuses = answer_once(handler, "do_POST", 500)
    assert read(url) == (0, "")
    assert not statuses


def test_silent_server_is_given_up_after_its_time(process_ring: None, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = GitServer(url=f"http://127.0.0.1:{silent.getsockname()[1]}/skills", timeout_seconds=0.2)
        with pytest.raises(SourceUnavailable, match="cannot be reached"):
            fetch(GitSource(server=server, commit="a" * 40, path=""), tmp_path, patience=0)
        connection, _ = silent.accept()
        connection.close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_server_that_fails_once_is_asked_again(read, plain):
    handler, url = plain
    statuses = answer_once(handler, "do_GET", 503)
    assert read(url, f"--patience={ceiling()}") == (0, "")
    assert not statuses


def test_redirect_through_a_proxy_stays_within_one_origin(read, plain, proxy):
    handler, url = plain

    def redirect(self):
        self.send_response(301)
        self.send_header("Location", "http://other.example.com/skills/.git/info/refs?service=git-upload-pack")
        self.send_header("Content-Length", "0")
        self.end_headers()

    handler.do_GET = redirect
    code, errors = read(url, f"--proxy-url=http://127.0.0.1:{proxy.port}")
    assert (code, "redirects to another server, http://other.example.com" in errors) == (2, True), errors
    assert not [head for head in proxy.heads if "other.example.com" in head]


def test_declared_proxy_takes_precedence_over_the_environment(read, plain, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert read(plain[1], f"--proxy-url=http://127.0.0.1:{proxy.port}") == (0, "")
    assert proxy.heads


@pytest.mark.parametrize(
    ("status", "encrypted", "code", "wanted"),
    [
        pytest.param(403, True, 75, "cannot be reached: Tunnel connection failed: 403", id="no tunnel"),
        pytest.param(
            407, True, 75, "cannot be reached: Tunnel connection failed: 407", id="no tunnel without a password"
        ),
        pytest.param(403, False, 75, "does not answer as a git server", id="no forwarding"),
        pytest.param(407, False, 2, "requires authentication; let the proxy accept the pod", id="a password"),
    ],
)
def test_refusal_of_the_proxy_names_the_proxy(read, plain, private, proxy, status, encrypted, code, wanted):
    proxy.refuses = status
    url = private[1] if encrypted else plain[1]
    found, errors = read(url, f"--proxy-url=http://127.0.0.1:{proxy.port}", f"--ca-file={private[2]}")
    assert (found, wanted in errors) == (code, True), errors
    assert f"the proxy http://127.0.0.1:{proxy.port}" in errors


def test_unreachable_proxy_is_named(read, private):
    code, errors = read(private[1], "--proxy-url=http://127.0.0.1:9", f"--ca-file={private[2]}")
    assert code == 75
    assert f"{private[1]}, through the proxy http://127.0.0.1:9, cannot be reached" in errors


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_declared_authority_counts_for_a_proxy_with_tls(read, plain, private, is_encrypted):
    _, url, file = private
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file.with_name("server.pem"))
    url = url if is_encrypted else plain[1]
    with run_proxy(context) as proxy:
        address = f"https://127.0.0.1:{proxy.port}"
        code, errors = read(url, f"--proxy-url={address}")
        assert code == 75, errors
        assert f"the certificate of the proxy {address} is not trusted" in errors
        assert "name the Secret with its authority in source.git.caSecretRef" in errors
        assert read(url, f"--proxy-url={address}", f"--ca-file={file}") == (0, "")
