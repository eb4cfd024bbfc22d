"""The two addresses of the gateway: inside the cluster, and for callers outside of it. Pure.

A caller gets the address by which it came. The `Host` header only chooses between the two configured addresses.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from fleetwright_api.spec.agent import AgentView


@dataclass(frozen=True, slots=True)
class Addresses:
    inside: str
    outside: str

    def is_inside(self, host: str) -> bool:
        """Return whether a caller that sent this `Host` header uses the address inside of the cluster."""
        name, service = host.partition(":")[0].lower(), urlsplit(self.inside).hostname
        return name == service or name.startswith(f"{service}.svc.")

    def for_host(self, host: str) -> str:
        """Return the address for a caller that sent this `Host` header."""
        return self.inside if self.is_inside(host) else self.outside


def agent_url(base: str, agent: AgentView) -> str:
    """Return the address of an agent at the gateway."""
    return f"{base}/agents/{agent.namespace}/{agent.name}"
