"""The operator's process: settings, catalog, probes, logs, and the reports of agents."""

import ipaddress
import json
import logging
import sys

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from e2e.cluster.ports import free_port, has_ipv6_loopback
from prometheus_client import CollectorRegistry

from fleetwright_api import durations
from fleetwright_api.model_catalog import ModelDefaults, parse_catalog
from fleetwright_operator.environment import settings_from
from fleetwright_operator.manager.health import ProcessHealth
from fleetwright_operator.manager.logs import JsonFormatter
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.manager.ops_server import ops_app, serve
from fleetwright_operator.settings import HelperPodDefaults, PodSelector


def test_settings_are_read_from_the_environment(tmp_path):
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("models: {m: {contextWindow: 10, price: {inputPerMillion: 1, outputPerMillion: 2}}}")
    found = settings_from(
        {
            "FLEETWRIGHT_NAMESPACES": "a,b",
            "FLEETWRIGHT_CATALOG_FILE": str(catalog),
            "FLEETWRIGHT_MONITORING_PODS": '{"namespace": "m", "labels": {"app": "p"}}',
            "FLEETWRIGHT_AGENT_RESOURCES": '{"limits": {"memory": "1Gi"}}',
            "FLEETWRIGHT_HELPER_PODS": '{"labels": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}',
            "FLEETWRIGHT_OMIT_IDS": "true",
            "FLEETWRIGHT_TOKEN_LEAD_SECONDS": "20",
            "POD_NAME": "operator-1",
        }
    )
    assert found.namespaces == ("a", "b")
    assert found.monitoring == PodSelector(namespace="m", labels={"app": "p"})
    assert found.agent_resources == {"limits": {"memory": "1Gi"}}
    assert found.helper_pods == HelperPodDefaults(labels={"a": "b"}, tolerations=({"operator": "Exists"},))
    assert found.omit_ids is True
    assert found.identity == "operator-1"
    assert found.token_lead_seconds == 20
    assert found.catalog.lookup("m").price == {"inputPerMillion": "1", "outputPerMillion": "2"}
    assert found.catalog.lookup("unknown") == ModelDefaults()


SERVICE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
API_SERVICES = [
    pytest.param(SERVICE, {(ipaddress.ip_address("10.96.0.1"), 443)}, id="an address"),
    pytest.param({**SERVICE, "KUBERNETES_SERVICE_HOST": "api.example.com"}, set(), id="a name"),
    pytest.param({**SERVICE, "FLEETWRIGHT_DENY_API_SERVER": "false"}, set(), id="not to be denied"),
    pytest.param({}, set(), id="no pod"),
]


@pytest.mark.parametrize(("environment", "wanted"), API_SERVICES)
def test_settings_read_the_api_server_service_from_the_pod(environment, wanted):
    assert settings_from(environment).api_server == wanted


FAMILIES = [
    pytest.param({"POD_IPS": "10.0.0.1"}, {4}, id="one of version 4"),
    pytest.param({"POD_IPS": "fd00::1"}, {6}, id="one of version 6"),
    pytest.param({"POD_IPS": "10.0.0.1,fd00::1"}, {4, 6}, id="both"),
    pytest.param({}, {4, 6}, id="not in a pod"),
]


@pytest.mark.parametrize(("environment", "families"), FAMILIES)
def test_settings_derive_ip_families_from_the_operator_pod(environment, families):
    assert settings_from(environment).ip_families == families


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLEETWRIGHT_WORKERS", "many"),
        ("FLEETWRIGHT_RESYNC_SECONDS", "0"),
        ("FLEETWRIGHT_AGENT_RESOURCES", "[]"),
        ("FLEETWRIGHT_DNS_PODS", '{"labels": {}}'),
        ("FLEETWRIGHT_DNS_PODS", '{"namespace": ""}'),
        ("FLEETWRIGHT_DNS_PORTS", "53,many"),
        ("FLEETWRIGHT_DNS_PORTS", "0"),
        ("FLEETWRIGHT_DNS_CIDRS", "169.254.20.10/8"),
        ("FLEETWRIGHT_DNS_CIDRS", "0.0.0.0/0"),
        ("FLEETWRIGHT_CATALOG_FILE", "/does/not/exist"),
        ("FLEETWRIGHT_CARD_KEY_TTL", "90d"),
        ("FLEETWRIGHT_CARD_KEY_OVERLAP", "9999h"),
        ("POD_IPS", "10.0.0.1,here"),
        ("FLEETWRIGHT_DENIED_RANGES", "10.0.0.1/8"),
        ("FLEETWRIGHT_DENIED_RANGES", "0.0.0.0/0"),
        ("FLEETWRIGHT_DENIED_RANGES", "10.0.0.0/8,2000::/3"),
        ("FLEETWRIGHT_DENY_API_SERVER", "yes"),
        ("FLEETWRIGHT_CILIUM", "on"),
        ("FLEETWRIGHT_OMIT_IDS", "yes"),
        ("FLEETWRIGHT_HELPER_PODS", '{"affinity": {}}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"tolerations": {}}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"tolerations": ["x"]}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"nodeSelector": {"a": true}}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"labels": {"fleetwright.dev/agent": "x"}}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"resources": {"requests": {"cpu": "much"}}}'),
        ("FLEETWRIGHT_HELPER_PODS", '{"resources": {"cpu": "1"}}'),
    ],
)
def test_settings_name_an_invalid_variable(name, value):
    with pytest.raises(ValueError, match=name):
        settings_from({name: value})


LIVES = [
    pytest.param("59s", "30s", "_TTL is 59s and must be at least 60s", id="a life too short"),
    pytest.param("1h", "29s", "_OVERLAP is 29s and must be at least 30s", id="an overlap too short"),
    pytest.param("1h", "61m", "_OVERLAP is 3660s and must not be longer", id="an overlap longer than the life"),
]


@pytest.mark.parametrize("secret", ["FLEETWRIGHT_TOKEN", "FLEETWRIGHT_CARD_KEY"])
@pytest.mark.parametrize(("life", "overlap", "says"), LIVES)
def test_settings_refuse_an_impossible_credential_lifetime(secret, life, overlap, says):
    with pytest.raises(ValueError, match=f"^{secret}{says}"):
        settings_from({f"{secret}_TTL": life, f"{secret}_OVERLAP": overlap})


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"models": []}, id="no mapping"),
        pytest.param({"models": {"m": {"contextwindow": 1}}}, id="a misspelt fact"),
        pytest.param({"models": {"m": {"price": {"inputPerMillion": "1"}}}}, id="half a price"),
    ],
)
def test_parse_catalog_refuses_an_invalid_document(document):
    with pytest.raises(ValueError, match="catalog"):
        parse_catalog(document)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200)])
def test_durations_parse_a_number_with_a_unit(text, seconds):
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "0s", "1.5m", "-1s", "1d", "1m30s"])
def test_durations_refuse_other_text(text):
    with pytest.raises(ValueError, match="such as 90s"):
        durations.seconds(text)


@pytest.mark.process
@pytest.mark.parametrize(
    ("address", "both"),
    [
        pytest.param("127.0.0.1", None, id="an address as most clusters give them"),
        pytest.param("[::1]", None, id="one of the other family"),
        pytest.param("127.0.0.1", False, id="the only one of a kernel without IPv6"),
    ],
)
async def test_ops_server_listens_on_ipv4_and_ipv6(address, both):
    if address == "[::1]" and not has_ipv6_loopback():
        pytest.skip("this machine has no IPv6")
    health, port = ProcessHealth(clock=lambda: 0.0, resync_seconds=100), free_port()
    runner = await serve(ops_app(health, CollectorRegistry()), port, both=both)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{port}/healthz") as answer:
            assert answer.status == 200
    finally:
        await runner.cleanup()


@pytest.mark.process
async def test_ops_app_distinguishes_standby_leader_and_unhealthy():
    now = [0.0]
    health = ProcessHealth(clock=lambda: now[0], resync_seconds=100)
    metrics = OperatorMetrics(CollectorRegistry())
    async with TestServer(ops_app(health, metrics.registry)) as server, aiohttp.ClientSession() as session:

        async def ask(path: str) -> int:
            async with session.get(server.make_url(path)) as answer:
                await answer.read()
                return answer.status

        assert (await ask("/healthz"), await ask("/readyz")) == (200, 200)
        health.leading = True
        assert (await ask("/healthz"), await ask("/readyz")) == (200, 503)
        health.record_list()
        assert await ask("/readyz") == 200
        now[0] = 300
        health.record_request()
        assert (await ask("/healthz"), await ask("/readyz")) == (200, 200)
        now[0] = 380
        health.record_request()
        assert (await ask("/healthz"), await ask("/readyz")) == (200, 503), "the last list is too old"
        health.record_list()
        now[0] = 450
        assert await ask("/healthz") == 503, "no reconcile has ended for a minute"
        assert await ask("/metrics") == 200


def test_log_line_is_json_with_the_object_and_the_trace():
    logger = logging.getLogger("a.b")
    try:
        raise ValueError("broken")
    except ValueError:
        record = logger.makeRecord(
            "a.b", logging.ERROR, "f", 1, "pass %s", ("failed",), sys.exc_info(), extra={"object": "poet"}
        )
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["message"], line["object"]) == ("error", "a.b", "pass failed", "poet")
    assert "ValueError: broken" in line["trace"]
    assert set(line) == {"time", "level", "logger", "message", "object", "trace"}


async def test_metrics_count_objects_by_condition(world, api, objects):
    api.put(objects.skill())
    await world.start()
    await world.settle()
    value = world.manager.metrics.registry.get_sample_value
    assert value("fleetwright_objects", {"kind": "Skill", "condition": "Ready"}) == 1
    assert value("fleetwright_reconcile_total", {"kind": "Skill", "outcome": "done"}) >= 1
    assert value("fleetwright_api_writes_total", {"verb": "create", "kind": "ConfigMap"}) == 1
