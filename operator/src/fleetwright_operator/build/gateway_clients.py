"""Builds the list by which the gateway recognises the clients of one agent.

The list contains only digests. The tokens have 256 random bits, so a token cannot be derived from its digest.
"""

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_operator.build.auth_files import Tokens, client_entries
from fleetwright_operator.build.manifest import Manifest, Owner, manifest


def gateway_clients(owner: Owner, tokens: Tokens) -> Manifest | None:
    """Return the ConfigMap, or None if the installation has no gateway or the agent has no clients."""
    entries = client_entries(tokens)
    if tokens.gateway is None or not entries:
        return None
    head = manifest("v1", "ConfigMap", name=names.agent_gateway_clients(owner.name), owner=owner)
    return {**head, "data": {names.CLIENTS_KEY: canonical_json({"version": 1, "clients": entries})}}
