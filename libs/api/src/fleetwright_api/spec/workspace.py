"""The workspace of an Agent: a pod of its own with files and a shell, which the agent's tools use.

The operator applies the defaults of `storage`. The runtime applies the defaults of the tools.
"""

from dataclasses import dataclass

from fleetwright_api.spec.fields import one_of
from fleetwright_api.spec.git import GitServerSpec
from fleetwright_api.spec.network import AddedEgressSpec, NetworkPeerSpec
from fleetwright_api.spec.references import ObjectReference
from fleetwright_api.spec.resources import ResourcesSpec

TOOLS = (
    "read_file",
    "write_file",
    "edit_file",
    "list_directory",
    "search_files",
    "bash",
    "todo_read",
    "todo_write",
    "webfetch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStorageSpec:
    """The volume. `claim` names an existing one; `ephemeral` files are lost with the pod."""

    size: str | None = None
    storage_class_name: str | None = None
    retain: bool = True
    ephemeral: bool = False
    claim: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceGitSpec(GitServerSpec):
    """A git repository that is cloned once, into an empty workspace."""

    ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSourceSpec:
    git: WorkspaceGitSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceApprovalsSpec:
    """When a person must approve a call. The runtime applies the defaults `Ask` and `Tiered`."""

    edits: str | None = one_of("Ask", "Auto", default=None)
    shell: str | None = one_of("Tiered", "Ask", "Auto", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceShellSpec:
    timeout: str | None = None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePeerSpec(NetworkPeerSpec):
    """Pods, a range of addresses, or a host by its name, which commands reach through the egress proxy."""

    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceEgressSpec(AddedEgressSpec):
    to: WorkspacePeerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceNetworkSpec:
    """The destinations of the workspace's pod. Without any, its shell reaches nothing."""

    egress: tuple[WorkspaceEgressSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceWebSpec:
    """The hosts that the tool webfetch may read, over HTTPS. The agent's pod connects to them."""

    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    image: str
    image_pull_secrets: tuple[ObjectReference, ...] = ()
    storage: WorkspaceStorageSpec = WorkspaceStorageSpec()
    source: WorkspaceSourceSpec | None = None
    tools: tuple[str, ...] | None = one_of(*TOOLS, default=None)
    approvals: WorkspaceApprovalsSpec = WorkspaceApprovalsSpec()
    shell: WorkspaceShellSpec = WorkspaceShellSpec()
    network: WorkspaceNetworkSpec = WorkspaceNetworkSpec()
    web: WorkspaceWebSpec = WorkspaceWebSpec()
    runtime_class_name: str | None = None
    resources: ResourcesSpec = ResourcesSpec()
