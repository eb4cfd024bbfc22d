"""A real Prometheus in the cluster scrapes agents and operator, and answers PromQL about the right agent."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from e2e.cluster import deploy
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.image_list import PROMETHEUS
from e2e.cluster.images import Images
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider
from e2e.scenarios import workloads
from e2e.scenarios.conftest import MONITORING
from e2e.scenarios.fleet import Caller, Fleet, agent


@pytest.fixture(scope="module")
def image(provider: Provider, progress: Progress, shown: Callable[[], AbstractContextManager[None]]) -> str:
    with shown():
        engine = provider.engine()
        if engine is None:
            pytest.skip("this provider pulls images, and Prometheus' is built here")
        built = Images(engine, progress, local_base=provider.local_base).build([PROMETHEUS.name])
        provider.load(built)
    return built[-1].pinned


@pytest.fixture(scope="module")
def prometheus(fleet: Fleet, image: str) -> Caller:
    """Prometheus scrapes two agents and the operator; the caller can ask it."""
    policy = {"trigger": {"tokens": 1500}, "keep": {"messages": 2}}
    fleet.apply(agent("talker", compaction=policy), agent("silent"))
    fleet.ready("agent/talker", "agent/silent")
    fleet.kubectl.apply([deploy.namespace(MONITORING)])
    there = Fleet(fleet.kubectl, MONITORING, fleet.image)
    command = ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/tmp/prometheus"]
    pod = workloads.pod("prometheus", image=image, command=command)
    mount = {"name": "config", "mountPath": "/etc/prometheus", "readOnly": True}
    pod["spec"]["containers"][0]["volumeMounts"].append(mount)
    pod["spec"]["volumes"].append({"name": "config", "configMap": {"name": "prometheus"}})
    service = workloads.service("prometheus")
    service["spec"]["ports"][0]["targetPort"] = 9090
    there.run("delete", "pod/prometheus", "--ignore-not-found")
    there.apply(_config(fleet), pod, service)
    there.ready("pod/prometheus")
    return there.caller("asker")


def _config(fleet: Fleet) -> dict[str, Any]:
    """Debian builds Prometheus without Kubernetes discovery, so the targets are written down with their labels."""
    agents = [_target(fleet, name, port=7871, agent=name) for name in ("talker", "silent")]
    operators = fleet.kubectl.get(
        "pods", f"--namespace={SYSTEM}", "--selector=app.kubernetes.io/name=fleetwright-operator"
    )["items"]
    operator = {"targets": [f"{pod['status']['podIP']}:8080" for pod in operators], "labels": {"namespace": SYSTEM}}
    config = {
        "global": {"scrape_interval": "2s"},
        "scrape_configs": [{"job_name": "fleetwright", "static_configs": [*agents, operator]}],
    }
    data = {"prometheus.yml": yaml.safe_dump(config)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"}, "data": data}


def _target(fleet: Fleet, name: str, *, port: int, **labels: str) -> dict[str, Any]:
    address = fleet.get("pod", fleet.pod_of(name))["status"]["podIP"]
    return {"targets": [f"{address}:{port}"], "labels": {"namespace": fleet.namespace, **labels}}


def _value(prometheus: Caller, query: str) -> float:
    """The one value of an instant query; 0 where it finds nothing."""
    found = prometheus.http(f"http://prometheus/api/v1/query?query={quote(query)}")
    if found.status != 200:
        return 0
    result = json.loads(found.body)["data"]["result"]
    return float(result[0]["value"][1]) if len(result) == 1 else 0


def test_promql_finds_compactions_and_cost_of_the_right_agent_and_the_operators_work(
    fleet: Fleet, prometheus: Caller
) -> None:
    caller, token = fleet.caller("visitor", of="talker"), fleet.token("talker")
    fleet.until(lambda: caller.reaches("talker", token=token), "the network lets the visitor in")
    for turn in range(5):
        caller.send("talker", f"Story number {turn}, please. [[long:300]]", token=token, context="c1")

    def of(metric: str, name: str) -> Callable[[], bool]:
        return lambda: _value(prometheus, f'sum({metric}{{namespace="{fleet.namespace}",agent="{name}"}})') > 0

    fleet.until(of("fleetwright_compactions_total", "talker"), "compactions are found")
    fleet.until(of("fleetwright_llm_cost_usd_total", "talker"), "cost is found")
    fleet.until(of("fleetwright_agent_info", "silent"), "the other agent is scraped too")
    assert not of("fleetwright_compactions_total", "silent")()
    assert not of("fleetwright_llm_cost_usd_total", "silent")()
    work = f'sum(fleetwright_reconcile_total{{namespace="{SYSTEM}",kind="Agent"}})'
    fleet.until(lambda: _value(prometheus, work) > 0, "the operator's counters are found")


def test_nobody_but_monitoring_reaches_an_agents_metrics(fleet: Fleet) -> None:
    fleet.apply(agent("quiet"))
    fleet.ready("agent/quiet")
    address = fleet.get("pod", fleet.pod_of("quiet"))["status"]["podIP"]
    stranger, friend = fleet.caller("stranger"), fleet.caller("friend", of="quiet")
    card = f"http://quiet.{fleet.namespace}.svc.cluster.local/.well-known/agent-card.json"
    fleet.until(lambda: friend.http(card, timeout=3).status == 200, "the network lets the friend in")
    for caller in (stranger, friend):
        assert caller.http(f"http://{address}:7871/metrics", timeout=3).status == 0
