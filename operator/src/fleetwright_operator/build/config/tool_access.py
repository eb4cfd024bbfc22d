"""How agents access the tools of an McpServer: its entry in `agent.json`, its credentials, and the allowed tools.

Probes use the same entry, so they receive the same tools as agents. The entry names credentials only as files that are
mounted from Secrets. The operator never reads the content of these Secrets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_api.spec.references import AuthorityReference, KeyReference
from fleetwright_api.spec.tools import ServerUseSpec
from fleetwright_operator.build.pod.file_mounts import SECRET

DEFAULT_TRANSPORT = "StreamableHTTP"
SecretKey = tuple[str, str]
"""(Secret, key)"""


def credential_keys(server: McpServerView) -> tuple[SecretKey, ...]:
    """Return every Secret key that a caller of this server must mount."""
    remote = server.spec.remote
    if remote is None:
        return ()
    keys = [_key(header.secret_key_ref) for header in remote.headers_from]
    if remote.ca_secret_ref is not None:
        keys.append(_key(remote.ca_secret_ref))
    return tuple(dict.fromkeys(keys))


def server_entry(server: McpServerView, endpoints: Endpoints) -> dict[str, Any]:
    """Return the entry of the server in the runtime's configuration."""
    entry = {"name": server.name, "url": endpoints.server(server)}
    remote = server.spec.remote
    if remote is None:
        return entry
    headers = [
        {"name": header.name, "valueFile": names.mounted_file(SECRET, *_key(header.secret_key_ref))}
        for header in remote.headers_from
    ]
    authority = remote.ca_secret_ref
    return {
        **entry,
        **({"transport": remote.transport} if remote.transport != DEFAULT_TRANSPORT else {}),
        **({"headers": headers} if headers else {}),
        **({"caFile": names.mounted_file(SECRET, *_key(authority))} if authority else {}),
        **({"proxyUrl": remote.proxy_url} if remote.proxy_url is not None else {}),
    }


def allowed_tools(use: ServerUseSpec, server: McpServerView) -> list[str] | None:
    """Return the tools that the agent and the server's policy both allow.

    None means that neither sets a list; an empty list means that no tool is allowed.
    """
    lists = [each for each in (use.tools.allow, server.spec.tool_policy.allow) if each]
    if not lists:
        return None
    denied = denied_tools(use, server)
    return [name for name in lists[0] if all(name in each for each in lists) and name not in denied]


def denied_tools(use: ServerUseSpec, server: McpServerView) -> list[str]:
    """Return the tools that the agent or the server's policy denies."""
    return list(dict.fromkeys([*use.tools.deny, *server.spec.tool_policy.deny]))


def peer_tool(peer: str) -> str:
    """Return the name of the tool that calls a peer, as the runtime names it."""
    return f"ask_{peer.replace('-', '_')}"


def pinned_list(server: McpServerView) -> dict[str, Any] | None:
    """Return the pinned list of tools: the current one, or the last one with the pinned digest.

    None means that there is no pin, or that no probe has observed the pinned list.
    """
    pin, status = server.spec.tool_policy.pin, server.status
    if pin is None:
        return None
    if status.get("toolsDigest") == pin:
        return {"digest": pin, "tools": status["tools"]}
    before: dict[str, Any] | None = status.get("pinned")
    return before if before and before["digest"] == pin else None


def digests(tools: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the digests by tool name."""
    return {tool["name"]: tool["digest"] for tool in tools}


def _key(reference: KeyReference | AuthorityReference) -> SecretKey:
    return reference.name, reference.key
