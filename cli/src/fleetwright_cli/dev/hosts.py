"""The hosts that an agent declares beside its models: a local run connects to none of them unless it is asked to.

A host is declared with `remote` of an McpServer, or as the collector of `telemetry`. This machine is no such host.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Manifest = Mapping[str, Any]
_HERE = ("127.0.0.1", "localhost", "::1")


def declared_hosts(agent: Manifest, servers: Mapping[str, Manifest]) -> dict[str, str]:
    """Return the address of each, by the field that declares it."""
    spec = agent["spec"]
    found = {
        f"mcpServers[{use['name']}]": servers[use["name"]]["spec"]["remote"]["url"]
        for use in spec.get("mcpServers", ())
        if "remote" in servers.get(use["name"], {}).get("spec", {})
    }
    if "telemetry" in spec:
        found["telemetry"] = spec["telemetry"]["otlp"]["endpoint"]
    return {field: url for field, url in found.items() if urlsplit(url).hostname not in _HERE}


def without_declared_hosts(agent: Manifest, servers: Mapping[str, Manifest]) -> dict[str, Any]:
    """Return the agent without what would connect to such a host."""
    spec, left_out = dict(agent["spec"]), declared_hosts(agent, servers)
    if "telemetry" in left_out:
        del spec["telemetry"]
    if "mcpServers" in spec:
        spec["mcpServers"] = [use for use in spec["mcpServers"] if f"mcpServers[{use['name']}]" not in left_out]
    return {**agent, "spec": spec}
