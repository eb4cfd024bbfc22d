"""Export of spans to a collector: their attributes, their parents, and the behaviour without a collector."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.collector import Collector

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.telemetry import Telemetry
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.otlp import OtlpTracing, traces_url
from fleetwright_agent.telemetry.tracing import UNTOLD, current_trace, traceparent

CALLER = {"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7"}


@asynccontextmanager
async def tracing(endpoint, root, **telemetry):
    metrics = Metrics(CollectorRegistry())
    made = OtlpTracing(
        Telemetry.model_validate({"endpoint": endpoint, **telemetry}),
        Layout(root=root),
        resource={"service.name": "desk"},
        failures=metrics.trace_failures,
    )
    yield made, lambda: metrics.registry.get_sample_value("fleetwright_trace_failures_total")
    await made.aclose()


def attributes(span):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


@pytest.mark.process
async def test_spans_are_nested_and_have_their_attributes(tmp_path):
    collector = Collector()
    async with collector.serving() as endpoint, tracing(endpoint, tmp_path) as (traces, failures):
        with traces.span("invoke_agent desk", {"gen_ai.operation.name": "invoke_agent"}, of=CALLER):
            outer = current_trace()
            with traces.span("chat m", {"gen_ai.request.model": "m"}, calls=True) as chat:
                chat.tell({"gen_ai.usage.input_tokens": 7})
                chat.fail("model_rate_limited")
                inner = traceparent()
            assert current_trace() == outer
        assert current_trace() == {}
    chat, task = collector.spans
    assert task.trace_id.hex() == CALLER["traceId"]
    assert task.parent_span_id.hex() == CALLER["spanId"]
    assert chat.parent_span_id == task.span_id
    assert outer == {"traceId": CALLER["traceId"], "spanId": task.span_id.hex()}
    assert inner == f"00-{CALLER['traceId']}-{chat.span_id.hex()}-01"
    wanted = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7, "error.type": "model_rate_limited"}
    assert attributes(chat) == wanted
    assert [chat.kind, task.kind] == [3, 1], "an external call is a client span, and internal work is an internal span"
    assert [chat.status.code, task.status.code] == [2, 0]
    assert collector.resources == [{"service.name": "desk"}]
    assert failures() == 0


@pytest.mark.process
async def test_spans_of_concurrent_tasks_are_separate(tmp_path):
    collector = Collector()

    async def work(traces, number):
        with traces.span(f"task {number}", {}):
            await asyncio.sleep(0)
            with traces.span(f"call {number}", {}):
                await asyncio.sleep(0)

    async with collector.serving() as endpoint, tracing(endpoint, tmp_path) as (traces, _):
        await asyncio.gather(*(work(traces, number) for number in range(5)))
    by_id = {span.span_id: span.name for span in collector.spans}
    inner = [span for span in collector.spans if span.name.startswith("call")]
    assert {span.name: by_id[span.parent_span_id] for span in inner} == {f"call {n}": f"task {n}" for n in range(5)}


HEADERS = [{"name": "Authorization", "valueFile": "secrets/collector/token"}]


@pytest.mark.process
async def test_exporter_headers_are_read_from_files_at_every_export(tmp_path):
    layout, collector = Layout(root=tmp_path), Collector()
    file = layout.secret("secrets/collector/token")
    file.parent.mkdir(parents=True)
    file.write_text("Bearer one\n")
    async with collector.serving() as endpoint:
        async with tracing(endpoint, tmp_path, headers=HEADERS) as (traces, _):
            with traces.span("a", {}):
                pass
        file.write_text("Bearer two\n")
        async with tracing(endpoint, tmp_path, headers=HEADERS) as (traces, _):
            with traces.span("b", {}):
                pass
    assert [headers["authorization"] for headers in collector.headers] == ["Bearer one", "Bearer two"]
    assert set(collector.paths) == {"/v1/traces"}


@pytest.mark.process
async def test_exporter_failure_is_counted_and_delays_nothing(tmp_path):
    collector = Collector(status=500)
    async with collector.serving() as endpoint, tracing(endpoint, tmp_path) as (traces, failures):
        with traces.span("a", {}):
            pass
        await traces.aclose()
        assert failures() == 1


DENIED = [
    pytest.param("http://169.254.169.254:4318", id="the metadata of a cloud"),
    pytest.param("http://127.0.0.1:1", id="nobody listens"),
]


@pytest.mark.process
@pytest.mark.parametrize("endpoint", DENIED)
async def test_exporter_drops_spans_for_unreachable_endpoints(tmp_path, endpoint):
    async with tracing(endpoint, tmp_path) as (traces, failures):
        with traces.span("a", {}):
            pass
        await traces.aclose()
        assert failures() == 1


async def test_exporter_unreadable_ca_file_does_not_affect_work(tmp_path):
    layout = Layout(root=tmp_path)
    file = layout.secret("secrets/ca/ca.crt")
    file.parent.mkdir(parents=True)
    file.write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context().load_verify_locations(cadata="no certificate")
    async with tracing("https://127.0.0.1:1", tmp_path, caFile="secrets/ca/ca.crt") as (traces, failures):
        with traces.span("a", {}):
            pass
        await traces.aclose()
        assert failures() == 1


@pytest.mark.process
async def test_sampling_applies_to_own_traces_but_not_to_callers(tmp_path):
    collector = Collector()
    async with collector.serving() as endpoint, tracing(endpoint, tmp_path, samplePercent=1) as (traces, _):
        for number in range(50):
            with traces.span(f"own {number}", {}):
                pass
            with traces.span(f"caller's {number}", {}, of=CALLER):
                assert current_trace()["traceId"] == CALLER["traceId"]
    names = [span.name for span in collector.spans]
    assert sum(name.startswith("caller's") for name in names) == 50
    assert sum(name.startswith("own") for name in names) < 25


@pytest.mark.process
@pytest.mark.parametrize("of", [{}, {"traceId": "zz", "spanId": "1"}, {"traceId": "0", "spanId": "0"}], ids=str)
async def test_span_with_an_invalid_parent_starts_a_new_trace(tmp_path, of):
    collector = Collector()
    async with collector.serving() as endpoint, tracing(endpoint, tmp_path) as (traces, _):
        with traces.span("a", {}, of=of):
            pass
    (span,) = collector.spans
    assert span.parent_span_id == b""


def test_disabled_tracing_records_nothing():
    with UNTOLD.span("a", {}) as span:
        span.tell({"a": 1})
        span.fail("b")
        assert current_trace() == {}
        assert traceparent() == ""


URLS = [
    pytest.param("http://c:4318", "http://c:4318/v1/traces", id="an address alone"),
    pytest.param("http://c:4318/", "http://c:4318/v1/traces", id="with a slash"),
    pytest.param("https://c/otlp/v1/traces", "https://c/otlp/v1/traces", id="with a path"),
]


@pytest.mark.parametrize(("endpoint", "url"), URLS)
def test_traces_url_adds_the_otlp_path_if_there_is_none(endpoint, url):
    assert traces_url(endpoint) == url
