"""Exports spans of the OpenTelemetry SDK as OTLP over HTTP, to a collector that the agent's egress policy allows.

Environment variables of the SDK are ignored: they change neither the sampling nor the endpoint. Exporting never blocks
the agent's work; spans that cannot be sent are dropped and counted.
"""

import asyncio
import gzip
import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import httpx
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client import Counter

from fleetwright_a2a.outbound.pinned_http import PinnedTransport
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.telemetry import Telemetry
from fleetwright_agent.telemetry.tracing import Span, Value, use_span

_log = logging.getLogger(__name__)
_SEND_SECONDS: Final = 5.0
_PAUSE_MILLIS: Final = 2000
_MOST_WAITING: Final = 4096
_MOST_AT_ONCE: Final = 512


class SpanCollector:
    """Sends batches of spans to the collector; its HTTP client runs on the agent's event loop."""

    def __init__(self, telemetry: Telemetry, layout: Layout, *, denied: tuple[Network, ...] = ()) -> None:
        self._telemetry = telemetry
        self._layout = layout
        self._denied = denied
        self._url = traces_url(telemetry.endpoint)
        self._client: httpx.AsyncClient | None = None
        self._trusted: bytes | None = None

    async def post(self, body: bytes) -> None:
        """Raises: httpx.HTTPError, OSError, ValueError: the collector did not accept the batch."""
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **self._headers()}
        client = await self._current()
        (await client.post(self._url, content=body, headers=headers)).raise_for_status()

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _headers(self) -> dict[str, str]:
        return {
            header.name: self._layout.secret(header.value_file).read_text().strip()
            for header in self._telemetry.headers
        }

    async def _current(self) -> httpx.AsyncClient:
        file = self._telemetry.ca_file
        wanted = self._layout.secret(file).read_bytes() if file else b""
        if self._client is None or wanted != self._trusted:
            fresh = self._connect(wanted)
            await self.aclose()
            self._client, self._trusted = fresh, wanted
        return self._client

    def _connect(self, authorities: bytes) -> httpx.AsyncClient:
        context = ssl.create_default_context()
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        policy = EgressPolicy.declared([self._telemetry.endpoint], denied=self._denied)
        return httpx.AsyncClient(
            transport=PinnedTransport(policy, verify=context), timeout=_SEND_SECONDS, trust_env=False
        )


class _Exporter(SpanExporter):
    """The exporter that the SDK calls on its own thread. The HTTP request runs on the agent's event loop."""

    def __init__(self, collector: SpanCollector, loop: asyncio.AbstractEventLoop, failures: Counter) -> None:
        self._collector = collector
        self._loop = loop
        self._failures = failures

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        body = gzip.compress(encode_spans(spans).SerializeToString(), compresslevel=1)
        try:
            asyncio.run_coroutine_threadsafe(self._collector.post(body), self._loop).result(_SEND_SECONDS * 2)
        except Exception as error:
            self._failures.inc()
            _log.warning("traces could not be sent", extra={"spans": len(spans), "why": type(error).__name__})
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


class OtlpTracing:
    def __init__(
        self,
        telemetry: Telemetry,
        layout: Layout,
        *,
        resource: Mapping[str, str],
        failures: Counter,
        denied: tuple[Network, ...] = (),
    ) -> None:
        """Args: `resource` identifies the agent in each span; `failures` counts batches that could not be sent."""
        self._collector = SpanCollector(telemetry, layout, denied=denied)
        self._failures = failures
        self._provider = TracerProvider(
            resource=Resource(dict(resource)),
            sampler=ParentBased(TraceIdRatioBased(telemetry.sample_percent / 100)),
            span_limits=SpanLimits(max_span_attributes=32, max_events=0, max_links=0, max_span_attribute_length=256),
            shutdown_on_exit=False,
        )
        self._tracer = self._provider.get_tracer("fleetwright_agent")
        self._sends = False

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, Value], *, of: Mapping[str, str] | None = None, calls: bool = False
    ) -> Iterator[Span]:
        self._begin()
        kind = SpanKind.CLIENT if calls else SpanKind.INTERNAL
        with (
            self._tracer.start_as_current_span(
                name,
                context=_remote(of or {}),
                kind=kind,
                attributes=dict(attributes),
                record_exception=False,
                set_status_on_exception=False,
            ) as started,
            use_span(_named(started.get_span_context())),
        ):
            yield _Told(started)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._provider.shutdown)
        await self._collector.aclose()

    def _begin(self) -> None:
        """Start the exporter with the first span, because it needs the running event loop."""
        if self._sends:
            return
        self._sends = True
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _Exporter(self._collector, asyncio.get_running_loop(), self._failures),
                max_queue_size=_MOST_WAITING,
                schedule_delay_millis=_PAUSE_MILLIS,
                max_export_batch_size=_MOST_AT_ONCE,
                export_timeout_millis=_SEND_SECONDS * 2000,
            )
        )


class _Told:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def tell(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes(dict(attributes))

    def fail(self, kind: str) -> None:
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR))


def _named(context: SpanContext) -> Mapping[str, str] | None:
    if not context.trace_flags.sampled:
        return None
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _remote(of: Mapping[str, str]) -> Context | None:
    """Return a context that continues the caller's trace; `None` if the caller sent no valid one."""
    with suppress(KeyError, ValueError):
        context = SpanContext(
            int(of["traceId"], 16), int(of["spanId"], 16), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )
        if context.is_valid:
            return trace.set_span_in_context(trace.NonRecordingSpan(context), Context())
    return None


def traces_url(endpoint: str) -> str:
    """Return the URL for traces; the default OTLP path is added if the endpoint has no path."""
    return endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
