"""How agents access the tools of an McpServer: its entry in `agent.json`, its credentials, and the allowed tools.

Probes use the same entry, so they see what agents will see. Credentials are only named, as files that are mounted from
Secrets, and their content is never read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_api.endpoints import Endpoints
from fleetwright_operator.build.pod.mounted_files import SECRET

DEFAULT_CA_KEY = "ca.crt"
DEFAULT_TRANSPORT = "StreamableHTTP"
SecretKey = tuple[str, str]
"""(Secret, key)"""


def credential_keys(server: Mapping[str, Any]) -> tuple[SecretKey, ...]:
    """Return every Secret key that a caller of this server must mount."""
    remote = server["spec"].get("remote", {})
    keys = [_key(header["secretKeyRef"]) for header in remote.get("headersFrom", ())]
    if "caSecretRef" in remote:
        keys.append(_ca(remote))
    return tuple(dict.fromkeys(keys))


def server_entry(server: Mapping[str, Any], endpoints: Endpoints) -> dict[str, Any]:
    """Return the entry of the server in the runtime's configuration."""
    remote = server["spec"].get("remote", {})
    headers = [
        {"name": header["name"], "valueFile": names.mounted_file(SECRET, *_key(header["secretKeyRef"]))}
        for header in remote.get("headersFrom", ())
    ]
    transport = remote.get("transport", DEFAULT_TRANSPORT)
    return {
        "name": server["metadata"]["name"],
        "url": endpoints.server(server),
        **({"transport": transport} if transport != DEFAULT_TRANSPORT else {}),
        **({"headers": headers} if headers else {}),
        **({"caFile": names.mounted_file(SECRET, *_ca(remote))} if "caSecretRef" in remote else {}),
    }


def allowed_tools(use: Mapping[str, Any], server: Mapping[str, Any]) -> list[str] | None:
    """Return the tools that the agent and the server's policy both allow.

    None means that neither sets a list; an empty list means that no tool is allowed.
    """
    ours, theirs = use.get("tools", {}).get("allow"), policy(server).get("allow")
    lists = [each for each in (ours, theirs) if each]
    if not lists:
        return None
    denied = denied_tools(use, server)
    return [name for name in lists[0] if all(name in each for each in lists) and name not in denied]


def denied_tools(use: Mapping[str, Any], server: Mapping[str, Any]) -> list[str]:
    """Return the tools that the agent or the server's policy denies."""
    return list(dict.fromkeys([*use.get("tools", {}).get("deny", ()), *policy(server).get("deny", ())]))


def peer_tool(peer: str) -> str:
    """Return the name of the tool that calls a peer, as the runtime names it."""
    return f"ask_{peer.replace('-', '_')}"


def policy(server: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = server["spec"].get("toolPolicy", {})
    return found


def pinned_list(server: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the pinned list of tools: the current one, or the last one with the pinned digest.

    None means that there is no pin, or that its list was never observed.
    """
    pin, status = policy(server).get("pin"), server.get("status", {})
    if pin is None:
        return None
    if status.get("toolsDigest") == pin:
        return {"digest": pin, "tools": status["tools"]}
    before: dict[str, Any] | None = status.get("pinned")
    return before if before and before["digest"] == pin else None


def digests(tools: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the digests by tool name."""
    return {tool["name"]: tool["digest"] for tool in tools}


def _key(reference: Mapping[str, str]) -> SecretKey:
    return reference["name"], reference["key"]


def _ca(remote: Mapping[str, Any]) -> SecretKey:
    reference = remote["caSecretRef"]
    return reference["name"], reference.get("key", DEFAULT_CA_KEY)
