"""The specs from which walks start, and the objects that every namespace of a walk contains."""

from collections.abc import Mapping
from typing import Any

import yaml
from e2e.cluster.paths import CHECKOUT
from e2e.control_plane.client import Object
from e2e.faults import flows

Spec = dict[str, Any]
NAMES = {"Agent": "poet", "Skill": "haiku", "McpServer": "tools"}
_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}
BASES: Mapping[str, tuple[Spec, ...]] = {
    "Agent": (
        {"instructions": "Help.", "model": _MODEL},
        {"instructions": "Help.", **flows.USES, "skills": [{"name": "haiku"}]},
        {
            "instructionsFrom": {"configMapKeyRef": {"name": "haiku-files", "key": "SKILL.md"}},
            "model": _MODEL,
            "allowedCallers": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"walked": "here"}}}},
            "callerRoles": [{"callers": ["*"], "actions": ["ReadMemory"]}],
        },
        {
            "instructionsFrom": {"secretKeyRef": {"name": "key", "key": "api-key"}},
            "model": _MODEL,
            "callerRoles": [{"callers": ["user:*"], "role": "ReadOnly"}],
        },
    ),
    "Skill": (
        flows.skill("haiku", "", "Three lines.")["spec"],
        {"source": {"configMap": {"name": "haiku-files"}}},
        {"source": {"git": {"url": "https://git.example.com/team/skills.git", "commit": "0" * 40}}},
        {"source": {"image": {"reference": f"registry.example.com/skills/haiku@sha256:{'0' * 64}"}}},
    ),
    "McpServer": (
        {"workload": {"image": "docker.io/example/tools:1"}},
        {"remote": {"url": "https://tools.example.com/mcp"}},
    ),
}
"""Complete specs, to which a random walk may also jump."""


def fixtures(space: str, *, without: str) -> list[Object]:
    """Return the objects that specs refer to, without the object of the kind under test."""
    spare = flows.key(space, "two")
    bodies = (
        flows.key(space, "one"),
        {**spare, "metadata": {**spare["metadata"], "name": "spare"}},
        flows.files("haiku", space, "Three lines."),
        flows.agent("helper", space),
        flows.skill("haiku", space, "Three lines."),
        flows.server("tools", space),
    )
    return [body for body in bodies if body["kind"] != without or without == "Agent"]


def schema_of(kind: str) -> Mapping[str, Any]:
    """Return the OpenAPI schema of the kind's spec from its CRD."""
    body = yaml.safe_load((CHECKOUT / "crds" / f"{kind.lower()}.yaml").read_text())
    spec: Mapping[str, Any] = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec
