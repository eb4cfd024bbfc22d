"""How agents get at the tools of an McpServer: its entry in `agent.json`, the credentials it needs, what may be used.

Probes look at a server by the same entry, so that what they see is what agents will see. Credentials are only
named: files that are mounted from the Secrets, never their content.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.api.endpoints import Endpoints
from fleetwright_operator.build.pod.mounted_files import SECRET

DEFAULT_CA_KEY = "ca.crt"
DEFAULT_TRANSPORT = "StreamableHTTP"
SecretKey = tuple[str, str]
"""(Secret, key)"""


def credential_keys(server: Mapping[str, Any]) -> tuple[SecretKey, ...]:
    """Every Secret key that whoever calls this server must have mounted."""
    remote = server["spec"].get("remote", {})
    keys = [_key(header["secretKeyRef"]) for header in remote.get("headersFrom", ())]
    if "caSecretRef" in remote:
        keys.append(_ca(remote))
    return tuple(dict.fromkeys(keys))


def server_entry(server: Mapping[str, Any], endpoints: Endpoints) -> dict[str, Any]:
    """Where and how the server is spoken to, as the runtime's configuration says it."""
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
    """What the agent and the server's policy both allow: None where neither says anything, empty where nothing is."""
    ours, theirs = use.get("tools", {}).get("allow"), policy(server).get("allow")
    lists = [each for each in (ours, theirs) if each]
    if not lists:
        return None
    denied = denied_tools(use, server)
    return [name for name in lists[0] if all(name in each for each in lists) and name not in denied]


def denied_tools(use: Mapping[str, Any], server: Mapping[str, Any]) -> list[str]:
    """What either denies."""
    return list(dict.fromkeys([*use.get("tools", {}).get("deny", ()), *policy(server).get("deny", ())]))


def peer_tool(peer: str) -> str:
    """The tool that asks a peer, as the runtime names it."""
    return f"ask_{peer.replace('-', '_')}"


def policy(server: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = server["spec"].get("toolPolicy", {})
    return found


def pinned_list(server: Mapping[str, Any]) -> dict[str, Any] | None:
    """The list that the pin stands for: as it is now, or as it was when it was seen last. None where neither is so."""
    pin, status = policy(server).get("pin"), server.get("status", {})
    if pin is None:
        return None
    if status.get("toolsDigest") == pin:
        return {"digest": pin, "tools": status["tools"]}
    before: dict[str, Any] | None = status.get("pinned")
    return before if before and before["digest"] == pin else None


def digests(tools: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """By name."""
    return {tool["name"]: tool["digest"] for tool in tools}


def _key(reference: Mapping[str, str]) -> SecretKey:
    return reference["name"], reference["key"]


def _ca(remote: Mapping[str, Any]) -> SecretKey:
    reference = remote["caSecretRef"]
    return reference["name"], reference.get("key", DEFAULT_CA_KEY)
