"""All names, labels, annotations and paths that the operator assigns.

Every child's name ends with its role, so two children never share a name by accident. If a name is already taken by an
object that is not managed by Fleetwright, the operator reports `Conflict` and never picks another name.
"""

from hashlib import sha256

GROUP = "fleetwright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FIELD_MANAGER = "fleetwright"

AGENT = "Agent"
SKILL = "Skill"
MCP_SERVER = "McpServer"
APPROVAL = "Approval"
CARD_KEYS = "CardKeys"
"""The kind under which the cache stores the Secret with the card keys.

`KEY_SET` is the kind for the ConfigMap of the same name.
"""
KEY_SET = "KeySet"

GATEWAY_KEYS = "GatewayKeys"
"""The kind, in the cache, of the Secret with the keys that sign the gateway's tokens."""

MANAGED_BY = "app.kubernetes.io/managed-by"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
OWN_PREFIXES = (f"{GROUP}/", MANAGED_BY, NAME, COMPONENT)
"""Prefixes of the operator's own labels and annotations, which no user may set."""
AGENT_LABEL = f"{GROUP}/agent"
MCP_SERVER_LABEL = f"{GROUP}/mcpserver"
SKILL_LABEL = f"{GROUP}/skill"
PARENT_LABEL = f"{GROUP}/parent"
"""A label of the Deployment of an agent with a parent. Its value is the name of the parent."""

MAY_CALL_LABEL = f"{GROUP}/may-call"
"""A label of pods. Its value is the agent of the same namespace whose A2A port the pod may reach."""

WORKSPACE_LABEL = f"{GROUP}/workspace"
"""A label of workspace pods with the name of their agent. They lack the agent's own label, because its Service and its
policies must not select them.
"""

PROBE_LABEL = f"{GROUP}/probe"
"""A label of probe pods with the hash of the probe's inputs. The probe's NetworkPolicy selects the pod by this hash."""
PROBE = "probe"
"""The component label of probe pods, which run one check and exit. No Service or other NetworkPolicy selects them."""

OWN_OBJECTS = f"{MANAGED_BY}={FIELD_MANAGER}"
"""The label selector for lists and watches of children, so that only objects are loaded that Fleetwright manages."""

HASH_ANNOTATION = f"{GROUP}/desired-hash"
REVISION_ANNOTATION = f"{GROUP}/revision"
TEMPLATE_ANNOTATION = f"{GROUP}/template-hash"
"""An annotation of Deployments with the hash of the pod template. It shows whether an update changed the template."""
RECORDS_ANNOTATION = f"{GROUP}/credentials"
"""An annotation of Secrets with tokens. It contains a record of each token, without the token itself."""
EXPIRES_ANNOTATION = f"{GROUP}/expires"
PENDING_ANNOTATION = f"{GROUP}/pending"
"""An annotation of the Secret with an agent's callers: for each token that is not used yet, when it was added."""
DIRECT_CALLERS_ANNOTATION = f"{GROUP}/direct-callers"
"""On an auth Secret: the uids of the agents that may call this agent directly, with tokens of the gateway."""
ROTATE_ANNOTATION = f"{GROUP}/rotate"
"""An annotation of Secrets with tokens. A user sets it to request a rotation; every new value is a new request."""
AUDIT_ACKNOWLEDGED_ANNOTATION = f"{GROUP}/audit-acknowledged"
"""An annotation of Agents. A user sets it after examining an audit trail whose end was missing."""
INSTALLATION_ANNOTATION = f"{GROUP}/installation"
"""On an object of Fleetwright's kinds: the installation to which a person moves it, as `<namespace>/<name>`."""
WAKE_ANNOTATION = f"{GROUP}/wake"
"""On an Agent: a request of the gateway or of a user to wake it. Every new value is a new request."""
CASCADE_ANNOTATION = f"{GROUP}/cascade-parent"
"""On an Agent: the uid of the parent that the operator made its owner. It marks the operator's owner reference."""
SKILL_DIGEST_ANNOTATION = f"{GROUP}/skill-digest"
HISTORICAL = frozenset({REVISION_ANNOTATION, SKILL_DIGEST_ANNOTATION})
"""The annotations of children that exist in several versions, of which old versions may be deleted."""
REFRESH_ANNOTATION = f"{GROUP}/refresh"
"""An annotation of agent pods. After a change, the kubelet reads mounted Secrets at once, not only within a minute."""

ENVIRONMENT_ANNOTATION = f"{GROUP}/environment"
"""An annotation of a workload's pod template: the versions of the objects from which its environment variables come."""

A2A_PORT = 7870
OPS_PORT = 7871
WORKSPACE_PORT = 7880
EGRESS_PROXY_PORT = 7881
SERVICE_PORT = 80
TOKEN_KEY = "token"  # noqa: S105 - the name of a Secret's key, not a credential
NEXT_KEY = "next"
CALLERS_KEY = "callers.json"
GATEWAY_KEY = "gateway.json"
OPERATOR_KEY = "operator.json"
ADMINISTRATORS_KEY = "administrators.json"
WORKSPACE_KEY = "workspace"
"""In an agent's auth Secret: the token for its workspace."""
DIGESTS_KEY = "tokens"
"""In the Secret of a workspace: the digests of the tokens that it accepts, one a line."""
CONFIG_KEY = "agent.json"
CARD_KEY = "agent-card.json"
CLIENTS_KEY = "clients.json"
EXTENDED_CARD_KEY = "extended-agent-card.json"
GATEWAY_CARD_KEY = "gateway-card.json"
"""The card with the gateway's address for callers outside of the cluster."""
GATEWAY_INSIDE_CARD_KEY = "gateway-card-inside.json"
"""The card with the gateway's address inside of the cluster, if the two addresses differ."""
GATEWAY_EXTENDED_CARD_KEY = "gateway-extended-card.json"
"""The extended card with the gateway's address for callers outside of the cluster, if the agent has one."""
GATEWAY_INSIDE_EXTENDED_CARD_KEY = "gateway-extended-card-inside.json"
"""The extended card with the gateway's address inside of the cluster, if the two addresses differ."""
LOG_LEVEL_KEY = "log-level"
RING_KEY = "keys.json"
PUSH_KEY = "keys"
KEY_SET_KEY = "jwks.json"
USER_ID = 65532

_ASK_DIGITS = 12
_KIND_LABELS = {AGENT: AGENT_LABEL, MCP_SERVER: MCP_SERVER_LABEL, SKILL: SKILL_LABEL}


def labels(kind: str, name: str) -> dict[str, str]:
    return {MANAGED_BY: FIELD_MANAGER, NAME: name, _KIND_LABELS[kind]: name}


def probed_label(kind: str) -> str:
    """Return the key of the label that names a probe's owner. The owner's own pods are selected by another label."""
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


def agent_gateway_clients(agent: str) -> str:
    return f"{agent}-gateway-clients"


def agent_ingress(agent: str) -> str:
    return f"{agent}-ingress"


def agent_memory(agent: str) -> str:
    return f"{agent}-memory"


def workspace(agent: str) -> str:
    """Return the name of all objects of an agent's workspace."""
    return f"{agent}-workspace"


def workspace_egress(agent: str) -> str:
    """Return the name of all objects of the proxy through which an agent's workspace reaches hosts."""
    return f"{agent}-egress"


def approval(agent: str, ask: str) -> str:
    """Return the name of the Approval for one question of an agent. Equal questions have equal names."""
    return f"{agent}-{sha256(ask.encode()).hexdigest()[:_ASK_DIGITS]}"


def agent_of_approval(approval: str) -> str:
    """Return the agent of an Approval with this name."""
    return approval[: -_ASK_DIGITS - 1]


def service_account_user(namespace: str, account: str) -> str:
    """Return the username with which the API server knows a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{account}"


def mcp_workload(server: str) -> str:
    return f"{server}-mcp"


def skill_snapshot(skill: str, digest: str) -> str:
    """Return the name of a snapshot. `digest` is `sha256:<hex>`."""
    return f"{skill}-skill-{digest.removeprefix('sha256:')[:10]}"


def peer_token_key(namespace: str, name: str) -> str:
    """Return the file name of a peer's token, as `Layout.peer_token_file` of the agent runtime expects it."""
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


def workspace_url(namespace: str, agent: str, *, cluster_domain: str) -> str:
    return f"http://{workspace(agent)}.{namespace}.svc.{cluster_domain}:{WORKSPACE_PORT}"


def mcp_workload_url(namespace: str, server: str, *, cluster_domain: str, port: int, path: str) -> str:
    return f"http://{mcp_workload(server)}.{namespace}.svc.{cluster_domain}:{port}{path}"
