"""A minimal collector of traces for tests."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """An OTLP collector that records the spans and their request headers."""

    def __init__(self, *, status: int = 200) -> None:
        self.status = status
        self.headers: list[dict[str, str]] = []
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        """The attributes of the resource of each request."""
        self.paths: list[str] = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:]) if name}
        body = gzip.decompress(await reader.readexactly(int(headers["content-length"])))
        self.paths.append(lines[0].split()[1])
        self.headers.append(headers)
        request = ExportTraceServiceRequest.FromString(body)
        if self.status == 200:
            for resource in request.resource_spans:
                self.resources.append({pair.key: pair.value.string_value for pair in resource.resource.attributes})
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on loopback, and yield the URL."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
