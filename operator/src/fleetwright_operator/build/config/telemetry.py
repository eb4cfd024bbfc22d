"""The telemetry settings of an Agent: where its traces are exported to. Pure."""

from typing import Any

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_operator.build.pod.file_references import collector_authority, collector_headers

WHY = "traces"
COLLECTOR = "spec.telemetry.otlp.endpoint"


def collector(spec: AgentSpec) -> str | None:
    """Return the address of the collector, if there is one."""
    return spec.telemetry.otlp.endpoint if spec.telemetry else None


def telemetry_config(spec: AgentSpec) -> dict[str, Any]:
    """Return the section of `agent.json`, or nothing if there is no collector, so that the revision does not change."""
    if spec.telemetry is None:
        return {}
    headers = [{"name": name, "valueFile": mounted.path} for name, mounted in collector_headers(spec).items()]
    authority, percent = collector_authority(spec), spec.telemetry.otlp.sample_percent
    return {
        "telemetry": {
            "endpoint": spec.telemetry.otlp.endpoint,
            **({"headers": headers} if headers else {}),
            **({"caFile": authority.path} if authority else {}),
            **({"samplePercent": percent} if percent else {}),
        }
    }
