"""All names, labels, annotations and paths that the operator assigns.

Every child's name ends with its role, so two children never share a name by accident. If a name is already taken by an
object that is not managed by Fleetwright, the operator reports `Conflict` and never picks another name.
"""

GROUP = "fleetwright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FIELD_MANAGER = "fleetwright"

AGENT = "Agent"
SKILL = "Skill"
MCP_SERVER = "McpServer"
CARD_KEYS = "CardKeys"
"""The kind, in the cache, of the Secret with the card keys.

`KEY_SET` is the kind of the ConfigMap with the same name.
"""
KEY_SET = "KeySet"

MANAGED_BY = "app.kubernetes.io/managed-by"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
AGENT_LABEL = f"{GROUP}/agent"
MCP_SERVER_LABEL = f"{GROUP}/mcpserver"
SKILL_LABEL = f"{GROUP}/skill"
MAY_CALL_LABEL = f"{GROUP}/may-call"
"""On a pod: the agent of the same namespace whose A2A port this pod may reach."""

PROBE_LABEL = f"{GROUP}/probe"
"""On a probe's pod: the hash of the probe's inputs. The probe's own NetworkPolicy selects the pod by this label."""
PROBE = "probe"
"""The component label of pods that examine one thing and exit. No Service and no other NetworkPolicy selects them."""

OWN_OBJECTS = f"{MANAGED_BY}={FIELD_MANAGER}"
"""The selector of every list and watch of children. Objects that Fleetwright does not manage are never loaded."""

HASH_ANNOTATION = f"{GROUP}/desired-hash"
REVISION_ANNOTATION = f"{GROUP}/revision"
TEMPLATE_ANNOTATION = f"{GROUP}/template-hash"
"""On a Deployment: the hash of its pod template, to tell a new template from a new number of replicas."""
RECORDS_ANNOTATION = f"{GROUP}/credentials"
"""On Secrets with tokens: the record of each token, without its text; see `rotating_token`."""
EXPIRES_ANNOTATION = f"{GROUP}/expires"
PENDING_ANNOTATION = f"{GROUP}/pending"
"""On the Secret with an agent's callers: for each token that is not in use yet, the time at which it was added."""
ROTATE_ANNOTATION = f"{GROUP}/rotate"
"""On a Secret with tokens: set by a user to request a rotation. Every new value is one request."""
AUDIT_ACKNOWLEDGED_ANNOTATION = f"{GROUP}/audit-acknowledged"
"""On an Agent: set by a user who has examined an audit trail that lost its end."""
SKILL_DIGEST_ANNOTATION = f"{GROUP}/skill-digest"
HISTORICAL = frozenset({REVISION_ANNOTATION, SKILL_DIGEST_ANNOTATION})
"""An object with one of these annotations is one of several versions, and former versions may be deleted."""
REFRESH_ANNOTATION = f"{GROUP}/refresh"
"""On agents' pods: a change makes the kubelet re-read mounted Secrets at once instead of within a minute."""

ENVIRONMENT_ANNOTATION = f"{GROUP}/environment"
"""On a workload's template: the versions of the objects that its environment comes from."""

A2A_PORT = 7870
OPS_PORT = 7871
SERVICE_PORT = 80
TOKEN_KEY = "token"  # noqa: S105 - the name of a Secret's key, not a credential
NEXT_KEY = "next"
CALLERS_KEY = "callers.json"
CONFIG_KEY = "agent.json"
CARD_KEY = "agent-card.json"
EXTENDED_CARD_KEY = "extended-agent-card.json"
LOG_LEVEL_KEY = "log-level"
RING_KEY = "keys.json"
PUSH_KEY = "keys"
KEY_SET_KEY = "jwks.json"
USER_ID = 65532

_KIND_LABELS = {AGENT: AGENT_LABEL, MCP_SERVER: MCP_SERVER_LABEL, SKILL: SKILL_LABEL}


def labels(kind: str, name: str) -> dict[str, str]:
    return {MANAGED_BY: FIELD_MANAGER, NAME: name, _KIND_LABELS[kind]: name}


def probed_label(kind: str) -> str:
    """Return the label of a probe that names its owner. It differs from the label that selects the owner's own pods."""
    return f"{GROUP}/probed-{kind.lower()}"


def probe_labels(kind: str, name: str) -> dict[str, str]:
    return {MANAGED_BY: FIELD_MANAGER, NAME: name, COMPONENT: PROBE, probed_label(kind): name}


def probe(name: str, question: str) -> str:
    return f"{name}-probe-{question}"


def agent_config(agent: str, revision: str) -> str:
    return f"{agent}-{revision}"


def agent_card(agent: str) -> str:
    return f"{agent}-card"


def agent_auth(agent: str) -> str:
    return f"{agent}-auth"


def agent_push(agent: str) -> str:
    return f"{agent}-push"


def agent_client(agent: str, client: str) -> str:
    return f"{agent}-client-{client}"


def agent_ingress(agent: str) -> str:
    return f"{agent}-ingress"


def agent_memory(agent: str) -> str:
    return f"{agent}-memory"


def mcp_workload(server: str) -> str:
    return f"{server}-mcp"


def skill_snapshot(skill: str, digest: str) -> str:
    """Return the name of a snapshot. `digest` is `sha256:<hex>`."""
    return f"{skill}-skill-{digest.removeprefix('sha256:')[:10]}"


def peer_token_key(namespace: str, name: str) -> str:
    """Return the file name below the auth folder, as the runtime's Layout.peer_token_file expects it."""
    return f"peer.{namespace}.{name}"


def next_token_key(namespace: str, name: str) -> str:
    return f"next.{namespace}.{name}"


def peer_of_token_key(key: str) -> tuple[str, str] | None:
    """The inverse of `peer_token_key`: return (namespace, name), or None for another key."""
    parts = key.split(".")
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "peer" else None


_FOLDERS = {"Secret": "secrets", "ConfigMap": "configmaps"}


def mounted_folder(kind: str, name: str) -> str:
    """Return the folder below the configuration folder at which a user's Secret or ConfigMap is mounted."""
    return f"{_FOLDERS[kind]}/{name}"


def mounted_file(kind: str, name: str, key: str) -> str:
    return f"{mounted_folder(kind, name)}/{key}"


def qualified(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def agent_url(namespace: str, agent: str, *, cluster_domain: str) -> str:
    return f"http://{agent}.{namespace}.svc.{cluster_domain}"


def mcp_workload_url(namespace: str, server: str, *, cluster_domain: str, port: int, path: str) -> str:
    return f"http://{mcp_workload(server)}.{namespace}.svc.{cluster_domain}:{port}{path}"
