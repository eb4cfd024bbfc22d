"""A real Prometheus in the cluster scrapes agents and the operator. PromQL attributes the series to the right agent."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from e2e.cluster import deploy
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.image_list import PROMETHEUS
from e2e.cluster.images import Images
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import ClusterError, Progress
from e2e.cluster.provider import Provider
from e2e.scenarios import workloads
from e2e.scenarios.conftest import MONITORING
from e2e.scenarios.fleet import Caller, Fleet, agent, cost_of

TALKERS = {"talker": 5, "teller": 7}
"""The number of turns in a conversation with each agent."""
POLICY = {"trigger": {"tokens": 1500}, "keep": {"messages": 2}}
CLERK = agent(
    "clerk",
    model={"fallbacks": [{"name": "offline-small", "price": {"inputPerMillion": "0.1", "outputPerMillion": "0.4"}}]},
    mcpServers=[{"name": "orders"}],
    subAgents=[{"name": "packer", "description": "Packs.", "instructions": "You pack.", "tools": []}],
    compaction=POLICY,
)
"""The agents that produce every series of the dashboard."""
TROUBLES = (
    "Look up order A-1002.",
    "Look up order A-9999.",
    'Give a task to the sub-agent packer: "pack the lamp"',
    "Are you there? [[fail:500@offline]]",
    *(f"Story number {turn}, please. [[long:300]]" for turn in range(4)),
    "Look up order A-1002.",
)
STUCK = agent("stuck", compaction={**POLICY, "guard": {"minGain": "0.95"}})
"""An agent whose compactions all fail, because no summary is short enough."""
SILENT = agent("silent", plugins=[{"name": "not-installed"}])
"""An agent without callers. It is Ready although its plugin is missing."""
AGENTS = (*TALKERS, "silent", "clerk", "stuck")
STORIES = tuple(f"Story number {turn}, please. [[long:300]]" for turn in range(6))


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
    """Prometheus scrapes the agents and the operator; the caller can ask it."""
    budget = [{"period": "Day", "usd": "10"}]
    talkers = [agent(name, compaction=POLICY, budgets=budget) for name in TALKERS]
    fleet.apply(_orders(fleet), *talkers, SILENT, CLERK, STUCK)
    fleet.ready("mcpserver/orders", *(f"agent/{name}" for name in AGENTS))
    fleet.kubectl.apply([deploy.namespace(MONITORING)])
    there = Fleet(fleet.kubectl, MONITORING, fleet.image)
    command = ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/tmp/prometheus"]
    pod = workloads.pod("prometheus", image=image, command=command)
    mount = {"name": "config", "mountPath": "/etc/prometheus", "readOnly": True}
    pod["spec"]["containers"][0]["volumeMounts"].append(mount)
    pod["spec"]["volumes"].append({"name": "config", "configMap": {"name": "prometheus"}})
    service = workloads.service("prometheus")
    service["spec"]["ports"][0]["targetPort"] = 9090
    fleet.apply(*map(_metrics_of, AGENTS))
    there.run("delete", "pod/prometheus", "--ignore-not-found")
    there.apply(_config(fleet), pod, service)
    there.ready("pod/prometheus")
    return there.caller("asker")


def _orders(fleet: Fleet) -> dict[str, Any]:
    command, env = ["fleetwright", "offline-orders"], [{"name": "HOST", "value": "0.0.0.0"}]
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": "orders"},
        "spec": {"workload": {"image": fleet.image, "command": command, "env": env, "port": 8000}},
    }


def _config(fleet: Fleet) -> dict[str, Any]:
    """Debian's Prometheus has no Kubernetes discovery, so the configuration lists the targets with their labels."""
    # The Services are the targets, because pods are replaced. The chart gives the counters of an agent the same labels
    # for all of its pods.
    agents = [_target(fleet.get(f"service/{name}-metrics"), namespace=fleet.namespace, agent=name) for name in AGENTS]
    service = fleet.kubectl.get("service/fleetwright-operator-metrics", f"--namespace={SYSTEM}")
    operator = _target(service, namespace=SYSTEM)
    config = {
        "global": {"scrape_interval": "2s"},
        "scrape_configs": [{"job_name": "fleetwright", "honor_labels": True, "static_configs": [*agents, operator]}],
    }
    data = {"prometheus.yml": yaml.safe_dump(config)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"}, "data": data}


def _metrics_of(name: str) -> dict[str, Any]:
    """Return a Service for the metrics of an agent."""
    spec = {"selector": {"fleetwright.dev/agent": name}, "ports": [{"port": 7871}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{name}-metrics"}, "spec": spec}


def _target(service: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    (port,), address = service["spec"]["ports"], service["spec"]["clusterIP"]
    return {"targets": [f"{address}:{port['port']}"], "labels": labels}


def _value(prometheus: Caller, query: str) -> float:
    """Return the single value of an instant query, or 0 if the query finds nothing."""
    found = prometheus.http(f"http://prometheus/api/v1/query?query={quote(query)}")
    if found.status != 200:
        return 0
    result = json.loads(found.body)["data"]["result"]
    return float(result[0]["value"][1]) if len(result) == 1 else 0


@pytest.fixture(scope="module")
def told(fleet: Fleet, prometheus: Caller) -> dict[str, float]:
    """Return the cost that the tasks of each agent report, after a conversation with each.

    The pods of the agents are replaced during the conversations.
    """
    del prometheus  # Prometheus must scrape before the first conversation.
    return {name: sum(_conversation(fleet, name, turns)) for name, turns in TALKERS.items()}


def _conversation(fleet: Fleet, name: str, turns: int) -> Iterator[float]:
    words = [f"Story number {turn}, please. [[long:300]]" for turn in range(turns)]
    for task in _told(fleet, name, words, replaced_before=turns - 1):
        yield cost_of(task)["costUsd"]


def _told(
    fleet: Fleet, name: str, words: Sequence[str], *, replaced_before: int | None = None
) -> Iterator[Mapping[str, Any]]:
    """Return the tasks of one conversation. Args: `replaced_before` is the message before which the pod is replaced."""
    caller, token = fleet.caller(f"visitor-of-{name}", of=name), fleet.token(name)
    fleet.until(lambda: caller.reaches(name, token=token), "the network lets the visitor in")
    for number, said in enumerate(words):
        if number == replaced_before:
            fleet.run("delete", "pod", fleet.pod_of(name))
            fleet.until(lambda: caller.reaches(name, token=token), "the next pod answers")
        yield caller.send(name, said, token=token, context=f"about-{name}").result["task"]


@pytest.fixture(scope="module")
def troubled(fleet: Fleet, prometheus: Caller) -> None:
    """Cause every failure and every rare event once."""
    del prometheus
    for name, words in (("clerk", TROUBLES), ("stuck", STORIES)):
        states = [task["status"]["state"] for task in _told(fleet, name, words)]
        assert states == ["TASK_STATE_COMPLETED"] * len(words)
    assert fleet.caller("visitor-of-clerk", of="clerk").status("clerk", token="made up") == 401


def test_metrics_attribute_compactions_and_cost_to_each_agent(
    fleet: Fleet, prometheus: Caller, told: dict[str, float]
) -> None:
    """PromQL finds the compactions and cost of each agent, and the operator's work."""

    def of(metric: str, name: str, **labels: str) -> float:
        named = {"namespace": fleet.namespace, "agent": name, **labels}
        selector = ",".join(f'{key}="{value}"' for key, value in named.items())
        return _value(prometheus, f"sum({metric}{{{selector}}})")

    def whole(name: str, dollars: float) -> bool:
        return of("fleetwright_llm_cost_usd_total", name) == pytest.approx(dollars, abs=TALKERS[name] * 1e-6)

    def compacted(name: str) -> bool:
        before, after = (of("fleetwright_compaction_tokens_total", name, phase=phase) for phase in ("before", "after"))
        return of("fleetwright_compactions_total", name) > 0 and before > after > 0

    # On a busy machine a scrape may fail, and Prometheus then finds no value until the next one.
    for name, dollars in told.items():
        fleet.until(partial(whole, name, dollars), f"exactly what the tasks of {name} cost is found")
        fleet.until(partial(compacted, name), f"the compactions of {name} are found")
        assert _value(prometheus, f'sum(resets(fleetwright_llm_cost_usd_total{{agent="{name}"}}[10m]))') == 0
    fleet.until(lambda: of("fleetwright_agent_info", "silent") > 0, "the silent agent is scraped too")
    assert of("fleetwright_compactions_total", "silent") == of("fleetwright_llm_cost_usd_total", "silent") == 0
    work = f'sum(fleetwright_reconcile_total{{namespace="{SYSTEM}",kind="Agent"}})'
    fleet.until(lambda: _value(prometheus, work) > 0, "the operator's counters are found")


@pytest.mark.usefixtures("told", "troubled")
def test_dashboard_queries_return_data(fleet: Fleet, prometheus: Caller) -> None:
    dashboard = json.loads((CHECKOUT / "charts/fleetwright/files/monitoring/dashboard.json").read_text())
    questions = {
        f"{panel['title']}: {target['refId']}": _of_here(target["expr"], fleet)
        for panel in dashboard["panels"]
        if panel["type"] != "row"
        for target in panel["targets"]
        # No message goes through the gateway here. Other tests show that the metrics of its panels exist.
        if "fleetwright_gateway" not in target["expr"]
    }

    def left() -> set[str]:
        return set(questions) - _answered(prometheus, questions)

    with suppress(ClusterError):
        fleet.until(lambda: not left(), "every query of every panel has data")
    assert left() == set()


def _of_here(expression: str, fleet: Fleet) -> str:
    values = {"$__rate_interval": "1m", "$__range": "5m", "$namespace": fleet.namespace, "$agent": ".*"}
    for variable, value in values.items():
        expression = expression.replace(variable, value)
    return expression


def _answered(prometheus: Caller, questions: Mapping[str, str]) -> set[str]:
    """Return the names of the queries that have a result. All queries are sent at the same time."""
    asked = [f'label_replace(count({question}), "asked", "{name}", "", "")' for name, question in questions.items()]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = prometheus.http("http://prometheus/api/v1/query", body=f"query={quote(' or '.join(asked))}", headers=form)
    assert answer.status == 200, answer.body
    return {found["metric"]["asked"] for found in json.loads(answer.body)["data"]["result"]}


def test_metrics_endpoint_is_reachable_by_monitoring_only(fleet: Fleet) -> None:
    fleet.apply(agent("quiet"))
    fleet.ready("agent/quiet")
    address = fleet.get("pod", fleet.pod_of("quiet"))["status"]["podIP"]
    stranger, friend = fleet.caller("stranger"), fleet.caller("friend", of="quiet")
    card = f"http://quiet.{fleet.namespace}.svc.cluster.local/.well-known/agent-card.json"
    fleet.kubectl.apply([deploy.namespace(MONITORING)])
    monitor = Fleet(fleet.kubectl, MONITORING, fleet.image).caller("monitor")
    metrics = f"http://{address}:7871/metrics"
    fleet.until(lambda: monitor.http(metrics, promised=0.3).status == 200, "monitoring reads the metrics")
    fleet.until(lambda: friend.http(card, promised=0.3).status == 200, "the network lets the friend in")
    fleet.until(lambda: fleet.reaches(stranger.pod, "offline-model", 80), "the stranger has a network")
    for caller in (stranger, friend):
        assert caller.http(metrics, promised=0.3).status == 0
