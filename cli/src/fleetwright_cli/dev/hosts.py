"""The remote hosts that an agent declares besides its models. By default a local run does not connect to them.

Hosts are declared as `remote` of an McpServer, or as the collector of `telemetry`. Addresses of this machine do not
count.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Manifest = Mapping[str, Any]
_HERE = ("127.0.0.1", "localhost", "::1")


def declared_hosts(agent: Manifest, servers: Mapping[str, Manifest]) -> dict[str, str]:
    """Return the address of each declared host, by its field."""
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
    """Return the agent without the parts that connect to declared hosts."""
    spec, left_out = dict(agent["spec"]), declared_hosts(agent, servers)
    if "telemetry" in left_out:
        del spec["telemetry"]
    if "mcpServers" in spec:
        spec["mcpServers"] = [use for use in spec["mcpServers"] if f"mcpServers[{use['name']}]" not in left_out]
    return {**agent, "spec": spec}
