"""Alerts and dashboard: Prometheus accepts each expression, its metrics exist, and alerts fire when they should."""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from fleetwright_agent.telemetry.metrics import Metrics as AgentMetrics
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_operator.manager.metrics import OperatorMetrics

CASES = Path(__file__).parent / "alerts.test.yaml"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "watching-it.md"
TARGET = {"namespace", "agent", "job", "instance", "le"}
"""Labels that a scrape adds, or a histogram has."""
Promtool = Callable[..., str]


@pytest.fixture
def check(promtool: str) -> Promtool:
    def run(*words: str | Path) -> str:
        done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def groups(render) -> list[dict[str, Any]]:
    """The groups of the PrometheusRule, in the format of a rule file."""
    rules = {"enabled": True, "labels": {"release": "kps"}}
    prometheus = {"rules": rules, "podMonitors": {"enabled": True}}
    rule = rule_of(render(prometheus=prometheus, gateway={"enabled": True}))
    assert rule["metadata"]["labels"]["release"] == "kps"
    found: list[dict[str, Any]] = rule["spec"]["groups"]
    return found


def rule_of(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    (rule,) = (document for document in documents if document["kind"] == "PrometheusRule")
    return rule


@pytest.fixture
def panels(render) -> list[dict[str, Any]]:
    documents = render(grafana={"dashboard": {"enabled": True}})
    (dashboard,) = (found for found in documents if found["metadata"]["name"] == "fw-operator-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    found: list[dict[str, Any]] = json.loads(dashboard["data"]["fleetwright.json"])["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def known_metrics() -> dict[str, set[str]]:
    """Return the labels of every series that the programs may serve, by its name."""
    agent, operator, gateway = CollectorRegistry(), CollectorRegistry(), CollectorRegistry()
    AgentMetrics(agent)
    GatewayMetrics(gateway)
    made = OperatorMetrics(operator)
    made.count_objects(list, installation="fleetwright-system/fleetwright")
    made.count_approvals(list)
    made.export_expiries(list)
    known: dict[str, set[str]] = {}
    for registry in (agent, operator, gateway):
        for collector in registry._collector_to_names:
            labels = set(getattr(collector, "_labelnames", ()))
            for family in collector.describe():
                labels |= set(getattr(family, "_labelnames", ()))
            known |= dict.fromkeys(registry._collector_to_names[collector], labels)
    return known


def expressions(panels: Iterable[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        for target in panel["targets"]:
            yield (
                target["expr"]
                .replace("$__rate_interval", "5m")
                .replace("$__range", "1h")
                .replace("$namespace", ".*")
                .replace("$agent", ".*")
            )


def unknown(expression: str, known: dict[str, set[str]]) -> set[str]:
    """Return the metrics and labels of an expression that no program serves."""
    found = set(re.findall(r"\bfleetwright_\w+", expression))
    labels = {label for names in re.findall(r"by \(([^)]*)\)", expression) for label in names.split(", ")}
    labels |= {
        label for braces in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)[=!]~?=?", braces)
    }
    served = TARGET.union(*(known.get(name, set()) for name in found))
    return {name for name in found if name not in known} | (labels - served)


def test_unknown_finds_undeclared_metrics_and_labels():
    known = known_metrics()
    assert unknown('sum by (kind) (rate(fleetwright_nothing_total{outcome="x"}[5m]))', known) == {
        "fleetwright_nothing_total",
        "kind",
        "outcome",
    }
    assert unknown('fleetwright_objects{kind="Agent",colour!~"red"}', known) == {"colour"}


def test_alerts_use_only_existing_metrics_and_labels(groups):
    for group in groups:
        for rule in group["rules"]:
            assert unknown(rule["expr"], known_metrics()) == set(), rule["alert"]


def test_dashboard_panels_use_only_existing_metrics_and_labels(panels):
    for expression in expressions(panels):
        assert unknown(expression, known_metrics()) == set(), expression


def test_alerts_about_the_gateway_need_a_gateway(render, groups):
    """Without a gateway, the alert about its absence would always fire."""
    without = rule_of(render(prometheus={"rules": {"enabled": True}}))["spec"]["groups"]
    assert without == [group for group in groups if group["name"] != "fleetwright-gateway"]
    assert len(without) == len(groups) - 1


@pytest.fixture
def groups_without_pod_monitors(render) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rule_of(render(prometheus={"rules": {"enabled": True}}, gateway={"enabled": True}))[
        "spec"
    ]["groups"]
    return found


def test_pod_monitors_change_only_the_missing_gateway(groups, groups_without_pod_monitors):
    """Only the PodMonitor of the chart sets the job. Without it, an alert about a missing job could always fire."""
    for found, is_there in ((groups, True), (groups_without_pod_monitors, False)):
        (down,) = (rule for rule in found[-1]["rules"] if rule["alert"] == "FleetwrightGatewayDown")
        assert ("absent(up{" in down["expr"]) == is_there
        assert unknown(down.pop("expr"), known_metrics()) == set()
    assert groups_without_pod_monitors == groups


GONE = {"instance": "no pod found"}
FIRST = {"instance": "first", "job": "fleetwright-gateway"}


@pytest.mark.parametrize(
    ("series", "fired"),
    [
        pytest.param({}, {"30m": [], "30h": []}, id="it was never scraped"),
        pytest.param(
            {'fleetwright_gateway_open_requests{job="other",instance="first"}': "0x10"},
            {"10m": [], "30m": [GONE], "20h": [GONE], "30h": []},
            id="another job has lost it",
        ),
        pytest.param(
            {'fleetwright_gateway_open_requests{job="other",instance="first"}': "0x1800"},
            {"30m": [], "30h": []},
            id="another job scrapes it",
        ),
        pytest.param(
            {
                'fleetwright_gateway_open_requests{job="fleetwright-gateway",instance="first"}': "0x10",
                'up{job="fleetwright-gateway",instance="first"}': "1x10 0x20",
            },
            {"10m": [], "30m": [FIRST], "50m": [GONE], "30h": []},
            id="the job of the guide cannot scrape it, and then finds no pod",
        ),
    ],
)
def test_gateway_down_fires_without_pod_monitors(groups_without_pod_monitors, check, tmp_path, series, fired):
    # promtool evaluates each rule for every minute of thirty hours.
    rules = [rule for group in groups_without_pod_monitors for rule in group["rules"]]
    down = [rule for rule in rules if rule["alert"] == "FleetwrightGatewayDown"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "gateway", "rules": down}]}))
    summary = "Prometheus cannot scrape the gateway: "
    wanted = [
        {
            "eval_time": time,
            "alertname": "FleetwrightGatewayDown",
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "warning", **labels},
                    "exp_annotations": {"summary": summary + labels["instance"]},
                }
                for labels in alerts
            ],
        }
        for time, alerts in fired.items()
    ]
    data = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": data, "alert_rule_test": wanted}
    cases = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    check("test", "rules", tmp_path / "cases.yaml")


def test_promtool_accepts_the_alert_rules(groups, check, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": groups}))
    number = sum(len(group["rules"]) for group in groups)
    assert f"{number} rules found" in check("check", "rules", rules)


def test_promtool_accepts_the_dashboard_expressions(panels, check, tmp_path):
    queries = list(expressions(panels))
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(queries)} rules found" in check("check", "rules", file)


def test_alert_rules_fire_only_on_their_conditions(groups, check, tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    cases = yaml.safe_load(CASES.read_text())
    fired = {case["alertname"] for test in cases["tests"] for case in test["alert_rule_test"] if case.get("exp_alerts")}
    quiet = {
        case["alertname"] for test in cases["tests"] for case in test["alert_rule_test"] if not case.get("exp_alerts")
    }
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert fired == quiet == alerts
    # promtool compares texts exactly. The expected texts come from the rules, because this test is not about wording.
    summaries = {rule["alert"]: rule["annotations"]["summary"] for group in groups for rule in group["rules"]}
    severities = {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"]}
    for test in cases["tests"]:
        for case in test["alert_rule_test"]:
            for alert in case.get("exp_alerts", ()):
                values = {f"{{{{ $labels.{name} }}}}": text for name, text in alert["exp_labels"].items()}
                values["{{ $value }}"] = alert.pop("value", "")
                text = summaries[case["alertname"]]
                for name, value in values.items():
                    text = text.replace(name, value)
                alert["exp_annotations"] = {"summary": text}
                alert["exp_labels"]["severity"] = severities[case["alertname"]]
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump({**cases, "rule_files": ["rules.yaml"]}))
    check("test", "rules", tmp_path / "cases.yaml")


def beginning_at_zero(cases: dict[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the series of the cases that begin at zero, without the labels that a scrape adds."""
    for test in cases["tests"]:
        for each in test["input_series"]:
            name, _, braces = each["series"].rstrip("}").partition("{")
            if each["values"].startswith("0"):
                yield name, frozenset(pair for pair in braces.split(",") if pair.partition("=")[0] not in TARGET)


def test_alert_case_counters_start_as_their_metrics_do():
    """The series begins at 0 only if it exists before its first event. Otherwise it begins absent."""
    agent, operator = CollectorRegistry(), CollectorRegistry()
    AgentMetrics(agent).declare(["m", "n"], lines=[("m", "n")], periods=["Day"])
    OperatorMetrics(operator)
    families = [family for registry in (agent, operator) for family in registry.collect()]
    counters = {f"{family.name}_total" for family in families if family.type == "counter"}
    counters |= {f"{family.name}_count" for family in families if family.type == "histogram"}
    there = {
        (sample.name, frozenset(f'{label}="{value}"' for label, value in sample.labels.items()))
        for family in families
        for sample in family.samples
    }
    begun = {series for series in beginning_at_zero(yaml.safe_load(CASES.read_text())) if series[0] in counters}
    assert begun <= there


def test_pod_monitors_select_the_pods_and_set_the_alert_labels(render):
    documents = render(prometheus={"podMonitors": {"enabled": True, "labels": {"release": "kps"}}}, namespaces=["a"])
    operator, agents = (found for found in documents if found["kind"] == "PodMonitor")
    (deployment,) = (found for found in documents if found["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert operator["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
    for monitor, job in ((operator, "fleetwright-operator"), (agents, "fleetwright-agents")):
        assert monitor["metadata"]["labels"]["release"] == "kps"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in ports
        assert {"action": "replace", "targetLabel": "job", "replacement": job} in endpoint["relabelings"]
    assert agents["spec"]["namespaceSelector"] == {"matchNames": ["a"]}
    everywhere = render(prometheus={"podMonitors": {"enabled": True}})
    assert [found["spec"].get("namespaceSelector") for found in everywhere if found["kind"] == "PodMonitor"] == [
        None,
        {"any": True},
    ]


@pytest.fixture
def scrape_configs() -> dict[str, Any]:
    """The jobs of the scrape configuration in the guide, by name."""
    blocks = re.findall(r"^```yaml\n(scrape_configs:.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (configuration,) = map(yaml.safe_load, blocks)
    return {job["job_name"]: job for job in configuration["scrape_configs"]}


def labels_selected_by(job: dict[str, Any]) -> dict[str, str]:
    (discovery,) = job["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    return dict(pair.split("=") for pair in selector["label"].split(","))


def test_scrape_configuration_of_the_guide_selects_the_pods(render, scrape_configs):
    documents = render(gateway={"enabled": True}, prometheus={"podMonitors": {"enabled": True}})
    deployments = [found for found in documents if found["kind"] == "Deployment"]
    selected = {
        name: [
            found["metadata"]["name"]
            for found in deployments
            if labels_selected_by(job).items() <= found["spec"]["template"]["metadata"]["labels"].items()
        ]
        for name, job in scrape_configs.items()
    }
    # The operator creates the Deployments of agents.
    assert selected == {
        "fleetwright-agents": [],
        "fleetwright-operator": ["fw-operator"],
        "fleetwright-gateway": ["fw-gateway"],
    }
    (agents,) = (found for found in documents if found["metadata"]["name"] == "fw-agents")
    assert labels_selected_by(scrape_configs["fleetwright-agents"]) == agents["spec"]["selector"]["matchLabels"]


def test_scrape_configuration_of_the_guide_has_all_jobs(scrape_configs, groups):
    jobs = {job for group in groups for rule in group["rules"] for job in re.findall(r'job="([^"]*)"', rule["expr"])}
    assert {"fleetwright-agents", "fleetwright-gateway"} <= jobs <= scrape_configs.keys()


def test_series_of_counters_do_not_depend_on_the_pod(render: Any) -> None:
    """Counters continue in the next pod of an agent. All other series, such as gauges, belong to one pod."""
    documents = render(prometheus={"podMonitors": {"enabled": True}})
    (agents,) = (found for found in documents if found["metadata"]["name"].endswith("-agents"))
    (endpoint,) = agents["spec"]["podMetricsEndpoints"]
    registry = CollectorRegistry()
    AgentMetrics(registry).declare(["m"], periods=["Day"])
    # The Prometheus Operator adds the label `pod`.
    target = {"namespace": "shop", "agent": "clerk", "instance": "clerk-1", "pod": "clerk-1"}
    kinds = set()
    for family in registry.collect():
        for sample in family.samples:
            is_counter = family.type == "counter" and not sample.name.endswith("_created")
            wanted = {"instance": "shop/clerk", "pod": ""} if is_counter else {}
            assert relabelled({"__name__": sample.name, **target}, endpoint["metricRelabelings"]) == {
                "__name__": sample.name, **target, **wanted,
            }  # fmt: skip
            kinds.add(family.type)
    assert kinds == {"counter", "gauge", "histogram"}


def relabelled(labels: dict[str, str], rules: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Apply the rules with the action `replace`, as Prometheus does."""
    found = dict(labels)
    for rule in rules:
        value = rule.get("separator", ";").join(found.get(name, "") for name in rule.get("sourceLabels", ()))
        if rule["action"] == "replace" and (match := re.fullmatch(rule["regex"], value)):
            found[rule["targetLabel"]] = match.expand(rule["replacement"].replace("$", "\\"))
    return found
