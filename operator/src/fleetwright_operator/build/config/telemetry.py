"""The telemetry settings of an Agent: where its traces are exported to. Pure."""

from collections.abc import Mapping
from typing import Any

from fleetwright_api.call_authorization import Agent
from fleetwright_operator.build.pod.file_references import collector_authority, collector_headers

WHY = "traces"
COLLECTOR = "spec.telemetry.otlp.endpoint"


def collector(agent: Agent) -> str | None:
    """Return the address of the collector, if there is one."""
    endpoint: str | None = _otlp(agent).get("endpoint")
    return endpoint


def telemetry_config(agent: Agent) -> dict[str, Any]:
    """Return the section of `agent.json`, or nothing if there is no collector, so that the revision does not change."""
    endpoint = collector(agent)
    if endpoint is None:
        return {}
    headers = [{"name": name, "valueFile": mounted.path} for name, mounted in collector_headers(agent).items()]
    authority, percent = collector_authority(agent), _otlp(agent).get("samplePercent")
    return {
        "telemetry": {
            "endpoint": endpoint,
            **({"headers": headers} if headers else {}),
            **({"caFile": authority.path} if authority else {}),
            **({"samplePercent": percent} if percent else {}),
        }
    }


def _otlp(agent: Agent) -> Mapping[str, Any]:
    otlp: Mapping[str, Any] = agent["spec"].get("telemetry", {}).get("otlp", {})
    return otlp
