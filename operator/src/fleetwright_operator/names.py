"""Every name, label, annotation and path that the operator gives to things, and nothing else.

Two children never share a name by accident: each ends with what it is. Where an object of somebody else
already has the name, the operator says `Conflict`; it never looks for another name.
"""

GROUP = "fleetwright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FIELD_MANAGER = "fleetwright"

AGENT = "Agent"
SKILL = "Skill"
MCP_SERVER = "McpServer"

MANAGED_BY = "app.kubernetes.io/managed-by"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
AGENT_LABEL = f"{GROUP}/agent"
MCP_SERVER_LABEL = f"{GROUP}/mcpserver"
SKILL_LABEL = f"{GROUP}/skill"
MAY_CALL_LABEL = f"{GROUP}/may-call"
"""On a pod: the agent of the same namespace whose A2A port this pod may reach."""

OWN_OBJECTS = f"{MANAGED_BY}={FIELD_MANAGER}"
"""The selector of every list and watch of children: foreign objects never enter memory."""

HASH_ANNOTATION = f"{GROUP}/desired-hash"
REVISION_ANNOTATION = f"{GROUP}/revision"
TOKEN_DIGEST_ANNOTATION = f"{GROUP}/token-sha256"
SKILL_DIGEST_ANNOTATION = f"{GROUP}/skill-digest"
REFRESH_ANNOTATION = f"{GROUP}/refresh"
"""On agents' pods: changing it makes the kubelet re-read mounted Secrets at once instead of within a minute."""

A2A_PORT = 7870
OPS_PORT = 7871
SERVICE_PORT = 80
TOKEN_KEY = "token"  # noqa: S105 - the name of a Secret's key, not a credential
CALLERS_KEY = "callers.json"
CONFIG_KEY = "agent.json"
CARD_KEY = "agent-card.json"
USER_ID = 65532

_KIND_LABELS = {AGENT: AGENT_LABEL, MCP_SERVER: MCP_SERVER_LABEL, SKILL: SKILL_LABEL}


def labels(kind: str, name: str) -> dict[str, str]:
    return {MANAGED_BY: FIELD_MANAGER, NAME: name, _KIND_LABELS[kind]: name}


def agent_config(agent: str, revision: str) -> str:
    return f"{agent}-{revision}"


def agent_auth(agent: str) -> str:
    return f"{agent}-auth"


def agent_client(agent: str, client: str) -> str:
    return f"{agent}-client-{client}"


def agent_memory(agent: str) -> str:
    return f"{agent}-memory"


def mcp_workload(server: str) -> str:
    return f"{server}-mcp"


def skill_snapshot(skill: str, digest: str) -> str:
    """`digest` is `sha256:<hex>`."""
    return f"{skill}-skill-{digest.removeprefix('sha256:')[:10]}"


def peer_token_key(namespace: str, name: str) -> str:
    """The file below the auth folder, as the runtime's Layout.peer_token_file expects it."""
    return f"peer.{namespace}.{name}"


def peer_of_token_key(key: str) -> tuple[str, str] | None:
    """The inverse of `peer_token_key`: (namespace, name), or None for another key."""
    parts = key.split(".")
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "peer" else None


def secret_file(secret: str, key: str) -> str:
    return f"secrets/{secret}/{key}"


def qualified(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def agent_url(namespace: str, agent: str, *, cluster_domain: str) -> str:
    return f"http://{agent}.{namespace}.svc.{cluster_domain}"


def mcp_workload_url(namespace: str, server: str, *, cluster_domain: str, port: int, path: str) -> str:
    return f"http://{mcp_workload(server)}.{namespace}.svc.{cluster_domain}:{port}{path}"
