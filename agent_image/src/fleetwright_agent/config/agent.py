"""The contract between the operator and the runtime: the shape of `agent.json`.

The runtime owns it, because the consumer knows what it can obey; the operator emits a plain dict that
tests validate against this model. Every field here drives behaviour. Refuses: unknown fields, defaults
that depend on the environment, and secrets (only names of files that hold them).
"""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.budgets import Budget
from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.config.enforcement import Audit, Enforcement
from fleetwright_agent.config.memory import Memory
from fleetwright_agent.config.model import EFFORTS, Endpoint, Model, OtherModel
from fleetwright_agent.config.plugins import Plugin
from fleetwright_agent.config.server import CallerChoice, DialectName, Extensions, Limits, Push, TypedResult
from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.config.telemetry import Telemetry
from fleetwright_agent.config.tools import McpServer, Peer, Skill, ToolSearch
from fleetwright_agent.protocol.extensions import MODEL, REASONING_EFFORT

_PLACE: Final = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"


class AgentConfig(Part):
    """One revision of one agent, as the operator compiled it."""

    version: Literal[1]
    revision: str
    """Hash of everything else here and of the card; the name of the ConfigMap ends with it."""
    name: DnsLabel
    namespace: DnsLabel
    description: str = ""
    instructions: str = ""
    instructions_file: str | None = None
    """Path below the configuration folder, read again before every call: one of the two says what the agent is for."""
    url: str
    """Where callers reach this agent, without a path."""
    model: Model
    executor: str | None = Field(default=None, max_length=253, pattern=_PLACE)
    """`MODULE:NAME` in the image: an AgentExecutor of the a2a-sdk that answers in place of the model loop."""
    skills: tuple[Skill, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    plugins: tuple[Plugin, ...] = Field(default=(), max_length=16)
    tool_search: ToolSearch | None = None
    """Without it the model is shown every tool."""
    peers: tuple[Peer, ...] = ()
    sub_agents: tuple[SubAgent, ...] = Field(default=(), max_length=16)
    compaction: Compaction = Compaction()
    limits: Limits = Limits()
    approvals: Approvals = Approvals()
    enforcement: Enforcement = Enforcement()
    audit: Audit = Audit()
    budgets: tuple[Budget, ...] = ()
    extensions: Extensions = Extensions()
    results: tuple[TypedResult, ...] = ()
    ask_human: bool = False
    """Whether the agent may put questions and forms to clients that call it."""
    memory: Memory = Memory()
    administrators: tuple[DnsLabel, ...] = ()
    """Clients, by name, that may read out and erase what the agent remembers of anybody."""
    drain_seconds: int = Field(default=30, gt=0)
    require_routable_url: bool = False
    """Whether the agent starts only where its card names addresses that others can reach."""
    ephemeral_memory: bool = False
    """Memory ends with the pod: what is not done by then cannot go on in the next one."""
    accept_api_key: bool = False
    """Whether clients may send their token in the header X-API-Key; agents never do."""
    dialects: tuple[DialectName, ...] = Field(default=tuple(DialectName), min_length=1)
    """The versions of the protocol that are spoken."""
    caller_choices: frozenset[CallerChoice] = frozenset()
    """What a request may choose in its metadata; what else it says there of such is passed over."""
    telemetry: Telemetry | None = None
    """Without it nobody is told of traces."""
    push: Push | None = None
    """Without it clients cannot ask for push notifications, and the card says so."""
    allowed_origins: tuple[str, ...] | None = None
    """Pages whose scripts may call, by the origin that their browser states, `*` for every; programs state none.

    Without a list every page may, and the log warns of it.
    """
    denied_ranges: tuple[IPv4Network | IPv6Network, ...] = ()
    """Of the installation: what nothing that this agent opens by itself may lead to."""
    task_retention_seconds: int = Field(default=24 * 3600, gt=0)
    """How long a task that has ended can be read; one that waits for its caller is kept."""

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

    @property
    def choices(self) -> Mapping[str, frozenset[str]]:
        """By the key in a request's metadata, what may stand there."""
        models = frozenset(model.name for model in (self.model, *self.model.fallbacks))
        known = {CallerChoice.MODEL: (MODEL, models), CallerChoice.REASONING_EFFORT: (REASONING_EFFORT, EFFORTS)}
        return dict(known[choice] for choice in self.caller_choices)

    @property
    def learns(self) -> bool:
        """Whether anything can come to be learned."""
        return self.memory.skills.enabled and bool(self.sub_agents)

    @property
    def models(self) -> tuple[Endpoint | OtherModel, ...]:
        """Every model that may be called."""
        auxiliary = (self.model.auxiliary,) if self.model.auxiliary else ()
        cheaper = (budget.downgrade.model for budget in self.budgets if budget.downgrade)
        delegates = (sub_agent.model for sub_agent in self.sub_agents if sub_agent.model)
        return (self.model, *self.model.fallbacks, *auxiliary, *cheaper, *delegates)

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """The models that stand in for each other: the agent's own or that of a sub-agent, and the fallbacks."""
        fallbacks = [model.name for model in self.model.fallbacks]
        first = {self.model.name, *(each.model.name for each in self.sub_agents if each.model)}
        return tuple((name, *fallbacks) for name in sorted(first))
