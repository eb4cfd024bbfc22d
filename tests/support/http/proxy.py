"""An HTTP proxy on loopback.

It tunnels CONNECT (RFC 9110 §9.3.6), and forwards requests for http URLs (RFC 9112 §3.2.2). It runs in a
thread, for clients that block. `relay` runs in the event loop of a test, and also records the bytes of tunnels.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.http.threaded_server import serve_handler


@dataclass
class ProxyRecord:
    """The requests that a proxy has read."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    """The heads of all requests to the proxy. A tunnel's content is not part of them."""
    refuses: int = 0
    """The status of all answers; 0 if the proxy does its work."""


class _ProxyHandler(BaseHTTPRequestHandler):
    record: ProxyRecord

    def do_CONNECT(self) -> None:
        self._keep_head()
        if self.record.refuses:
            self._refuse()
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            self._pump_both(server)
        self.close_connection = True

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def _forward(self) -> None:
        self._keep_head()
        if self.record.refuses:
            self._refuse()
            return
        url = urlsplit(self.path)
        target = self.path.removeprefix(f"{url.scheme}://{url.netloc}")
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items() if name != "Connection")
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        with socket.create_connection((url.hostname, url.port or 80)) as server:
            server.sendall(f"{self.command} {target} HTTP/1.0\r\n{fields}\r\n".encode() + body)
            while data := server.recv(65536):
                self.wfile.write(data)
        self.close_connection = True

    def _refuse(self) -> None:
        self.send_response(self.record.refuses)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _keep_head(self) -> None:
        self.record.heads.append(f"{self.requestline}\r\n{self.headers}")

    def _pump_both(self, server: socket.socket) -> None:
        back = threading.Thread(target=_pump, args=(server, self.connection), daemon=True)
        back.start()
        _pump(self.connection, server)
        back.join()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def run_proxy(context: ssl.SSLContext | None = None) -> Iterator[ProxyRecord]:
    """Yield the record of a running proxy. Args: `context` is its TLS context, if its clients must use TLS."""
    record = ProxyRecord()
    handler = type("Handler", (_ProxyHandler,), {"record": record})
    with serve_handler(handler, context) as record.port:
        yield record
