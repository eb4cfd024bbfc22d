"""A Git repository behind HTTP."""

import base64
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.support.http.threaded_server import serve_handler


def run_git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout.strip()


class GitBackend(BaseHTTPRequestHandler):
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


@contextmanager
def serve_repositories(root: Path, context: ssl.SSLContext | None = None) -> Iterator[tuple[type[GitBackend], str]]:
    """Serve the repositories below a folder, with TLS if there is a context. Yield the handler and the server's URL."""
    handler = type("Handler", (GitBackend,), {"root": root})
    with serve_handler(handler, context) as port:
        yield handler, f"http{'s' if context else ''}://127.0.0.1:{port}"
