"""The schema of `agent.json`, the contract between the operator and the runtime.

The runtime defines the schema, because it knows which fields it supports. The operator emits a plain dict, and tests
validate that dict against this model. Every field affects behaviour. Unknown fields are rejected, defaults do not
depend on the environment, and secrets appear only as the names of their files.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from fleetwright_a2a.extensions import MODEL, REASONING_EFFORT
from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.budgets import Budget
from fleetwright_agent.config.callers import CallerKind, participants_of
from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.config.enforcement import Audit, CallerRoleEntry, Enforcement
from fleetwright_agent.config.gateway import Gateway
from fleetwright_agent.config.memory import Memory
from fleetwright_agent.config.model import EFFORTS, Endpoint, Model, OtherModel
from fleetwright_agent.config.prompts import IdlePrompt, PromptText
from fleetwright_agent.config.server import CallerChoice, DialectName, Extensions, Limits, Push, TypedResult
from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.config.telemetry import Telemetry
from fleetwright_agent.config.tools import DeclaredSkill, McpServer, Peer, PluginConfig, Skill, ToolSearch
from fleetwright_agent.config.workspace import Workspace
from fleetwright_agent.security.caller_roles import CallerAction, allowed_actions

_PLACE: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"


class AgentConfig(Part):
    """One revision of one agent, as the operator compiled it."""

    version: Literal[1]
    revision: str
    """Hash of all other fields and of the card; the name of the ConfigMap ends with it."""
    name: DnsLabel
    namespace: DnsLabel
    description: str = ""
    instructions: str = ""
    instructions_file: str | None = None
    """Path below the configuration folder, read again before every call. Exactly one of the two fields is set."""
    initial_prompt: PromptText | None = None
    """A message of the agent to itself, processed once in the life of its memory."""
    idle_prompt: IdlePrompt | None = None
    """A message of the agent to itself, processed whenever no task has run for a while."""
    url: str
    """The base URL for callers of this agent, without a path."""
    model: Model
    executor: str | None = Field(default=None, max_length=253, pattern=_PLACE)
    """`MODULE:NAME` in the image: an AgentExecutor of the a2a-sdk that replaces the model loop."""
    skills: tuple[Skill, ...] = ()
    declared_skills: tuple[DeclaredSkill, ...] = ()
    """The skills that the card shows and that have no files."""
    mcp_servers: tuple[McpServer, ...] = ()
    plugins: tuple[PluginConfig, ...] = Field(default=(), max_length=16)
    tool_search: ToolSearch | None = None
    """If unset, every model call includes every tool."""
    peers: tuple[Peer, ...] = ()
    sub_agents: tuple[SubAgent, ...] = Field(default=(), max_length=16)
    workspace: Workspace | None = None
    """If unset, the agent has no files and runs no commands."""
    compaction: Compaction = Compaction()
    limits: Limits = Limits()
    approvals: Approvals = Approvals()
    caller_roles: tuple[CallerRoleEntry, ...] = Field(default=(), max_length=32)
    """The first entry that matches a caller applies. A caller without an entry is not restricted."""
    enforcement: Enforcement = Enforcement()
    audit: Audit = Audit()
    budgets: tuple[Budget, ...] = ()
    extensions: Extensions = Extensions()
    results: tuple[TypedResult, ...] = ()
    ask_human: bool = False
    """The agent may send questions and forms to its clients."""
    memory: Memory = Memory()
    administrators: tuple[DnsLabel, ...] = ()
    """Names of clients that may export and erase the data that the agent remembers about any caller.

    They count only without the file `auth/administrators.json`. Earlier operators write no such file.
    """
    drain_seconds: int = Field(default=30, gt=0)
    require_routable_url: bool = False
    """The agent refuses to start if its card names an address that other hosts cannot reach."""
    ephemeral_memory: bool = False
    """Memory is lost when the pod ends: unfinished tasks cannot resume in the next pod."""
    accept_api_key: bool = False
    """Clients may send their token in the header X-API-Key. Agents send it in the header Authorization."""
    dialects: tuple[DialectName, ...] = Field(default=tuple(DialectName), min_length=1)
    """The supported versions of the A2A protocol."""
    caller_choices: frozenset[CallerChoice] = frozenset()
    """The options that a request may set in its metadata; other options there are ignored."""
    telemetry: Telemetry | None = None
    """If unset, no traces are exported."""
    gateway: Gateway | None = None
    """If unset, the agent finds and calls no agents of its team."""
    preload: bool = False
    """The agent imports its turn during its start and builds it when it is ready, instead of with the first task."""
    push: Push | None = None
    """If unset, clients cannot ask for push notifications, and the card states this."""
    allowed_origins: tuple[str, ...] | None = None
    """Web origins whose scripts may call the agent; `*` allows all. Programs other than browsers send no origin.

    Without a list every origin is allowed, and the log contains a warning.
    """
    denied_ranges: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses that the installation denies for all outgoing connections of this agent."""
    task_retention_seconds: int = Field(default=24 * 3600, gt=0)
    """The time for which an ended task can be read. A task that waits for its caller is kept."""

    @model_validator(mode="after")
    def _instructed(self) -> Self:
        if bool(self.instructions.strip()) == (self.instructions_file is not None):
            raise ValueError("exactly one of instructions and instructionsFile is needed")
        return self

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        servers = {server.name for server in self.mcp_servers}
        if both := sorted(servers & {plugin.name for plugin in self.plugins}):
            raise ValueError(f"plugins and mcpServers both have {both[0]!r}: their tools would have the same names")
        return self

    def actions_of(self, owner: str) -> frozenset[CallerAction]:
        """Return the actions that the agent may take for this owner."""
        return allowed_actions(participants_of(owner), self.caller_roles)

    @property
    def as_caller(self) -> str:
        """The agent as a caller, which owns the tasks that it begins by itself."""
        return f"{CallerKind.AGENT}:{self.namespace}/{self.name}"

    @property
    def choices(self) -> Mapping[str, frozenset[str]]:
        """The values allowed for each key of a request's metadata."""
        models = frozenset(model.name for model in (self.model, *self.model.fallbacks))
        known = {CallerChoice.MODEL: (MODEL, models), CallerChoice.REASONING_EFFORT: (REASONING_EFFORT, EFFORTS)}
        return dict(known[choice] for choice in self.caller_choices)

    @property
    def learns(self) -> bool:
        """True if the configuration enables learning skills and has sub-agents to learn from."""
        return self.memory.skills.enabled and bool(self.sub_agents)

    @property
    def forks(self) -> bool:
        """True if a caller may begin a conversation with the history of another one."""
        return self.workspace is not None or self.extensions.context

    @property
    def workspace_asks(self) -> bool:
        """True if a change of a file or a command in the workspace may need the approval of a person."""
        return self.workspace is not None and self.workspace.may_ask

    @property
    def models(self) -> tuple[Endpoint | OtherModel, ...]:
        """Every model that may be called."""
        return tuple(model for _, model in self.declared_models)

    @property
    def declared_models(self) -> tuple[tuple[str, Endpoint | OtherModel], ...]:
        """Every model that may be called, with the field that declares it."""
        own, cheaper = self.model, [(each.period, each.downgrade) for each in self.budgets if each.downgrade]
        return (
            ("model", own),
            *((f"model.fallbacks[{n}]", model) for n, model in enumerate(own.fallbacks)),
            *([("model.auxiliary", own.auxiliary)] if own.auxiliary else []),
            *((f"budgets[{period}].downgrade.model", downgrade.model) for period, downgrade in cheaper),
            *((f"subAgents[{each.name}].model", each.model) for each in self.sub_agents if each.model),
        )

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """The fallback orders: the agent's or a sub-agent's model, followed by the fallbacks."""
        fallbacks = [model.name for model in self.model.fallbacks]
        first = {self.model.name, *(each.model.name for each in self.sub_agents if each.model)}
        return tuple((name, *fallbacks) for name in sorted(first))
