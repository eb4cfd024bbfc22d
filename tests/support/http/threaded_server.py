"""HTTP servers of tests in a thread, for clients that block the event loop."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serve_handler(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on loopback, with TLS if there is a context. Yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if context is not None:
            # The handshake runs in the thread of the connection, so a client that refuses it blocks no other.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
