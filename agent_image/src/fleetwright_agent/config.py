"""The contract between the operator and the runtime: the shape of `agent.json`.

The runtime owns it, because the consumer knows what it can obey; the operator emits a plain dict that
tests validate against this model. Every field here drives behaviour. Refuses: unknown fields, defaults
that depend on the environment, and secrets (only names of files that hold them).
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from fleetwright_agent.security.egress import canonical_host

DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Fraction = Annotated[Decimal, Field(gt=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class Price(_Part):
    """US dollars for a million tokens; cached input falls back to the price of input."""

    input_per_million: Decimal = Field(ge=0)
    output_per_million: Decimal = Field(ge=0)
    cached_input_per_million: Decimal | None = Field(default=None, ge=0)


class Header(_Part):
    """An HTTP header whose value lies in a mounted file, read again for every request."""

    name: str = Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
    value_file: str


class Model(_Part):
    """An OpenAI-compatible chat-completions endpoint."""

    name: str = Field(min_length=1, max_length=253)
    base_url: str = Field(min_length=1, max_length=2048)
    api_key_file: str | None = None
    """Path below the configuration folder, `secrets/<name>/<key>`; read again before every call."""
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """Certificates of authorities that are trusted beside the usual ones; read again when it changes."""
    proxy_url: str | None = Field(default=None, max_length=2048)
    context_window: int = Field(gt=0)
    max_output_tokens: int = Field(gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    timeout_seconds: int = Field(gt=0)
    price: Price | None = None


class Skill(_Part):
    """A folder mounted at `skills/<name>` below the configuration folder, holding SKILL.md."""

    name: DnsLabel
    description: str = Field(min_length=1, max_length=1024)
    digest: str


class Transport(StrEnum):
    STREAMABLE_HTTP = "StreamableHTTP"
    SSE = "SSE"


class McpServer(_Part):
    """Tools of a server. `allow` empty means every tool that `deny` does not name."""

    name: DnsLabel
    url: str
    transport: Transport = Transport.STREAMABLE_HTTP
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """Certificates that are trusted beside the system's."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    require_approval: tuple[str, ...] = ()
    """Tools that run only when a person says yes."""
    pinned: Mapping[str, str] | None = None
    """By tool: the digest of what it promised when it was pinned. What has another, or none, is not used."""


class Peer(_Part):
    """An agent that this one may call; its credential is the file `auth/peer.<namespace>.<name>`."""

    name: DnsLabel
    namespace: DnsLabel
    url: str
    """The address without a path; the card lies at its well-known place below it."""
    description: str = ""


class CompactionMode(StrEnum):
    ENFORCE = "Enforce"
    OBSERVE = "Observe"
    OFF = "Off"


class CompactionTrigger(_Part):
    """The first that is reached fires. Fractions are of the window less the output reserve."""

    context_fraction: Fraction = Decimal("0.8")
    tokens: int = Field(default=150_000, gt=0)
    messages: int | None = Field(default=None, gt=1)


class CompactionKeep(_Part):
    """The newest part of the conversation that stays as it is: the smaller of the two."""

    messages: int = Field(default=20, gt=0)
    context_fraction: Fraction = Decimal("0.15")


class CompactionSummary(_Part):
    max_tokens: int = Field(default=4000, gt=0)
    timeout_seconds: int = Field(default=60, gt=0)
    instructions: str = ""
    """Appended to the built-in instruction, never instead of it."""


class Compaction(_Part):
    mode: CompactionMode = CompactionMode.ENFORCE
    trigger: CompactionTrigger = CompactionTrigger()
    keep: CompactionKeep = CompactionKeep()
    summary: CompactionSummary = CompactionSummary()


class DialectName(StrEnum):
    V1_0 = "1.0"
    V0_3 = "0.3"
    V0_1 = "0.1"


class Approver(StrEnum):
    CLIENTS = "Clients"
    CALLERS = "Callers"
    """Agents too, but never an agent by its own credential."""


class Approvals(_Part):
    """Calls of tools that wait for a person."""

    tools: tuple[str, ...] = ()
    """Names as the model calls them: `<server>__<tool>`, `ask_<peer>`."""
    by: Approver = Approver.CLIENTS
    expiry_seconds: int = Field(default=86_400, gt=0)
    """A task whose approval nobody answers for so long has failed."""


class TypedResult(_Part):
    """The shape that answers to one skill of the card have as data, beside their text."""

    skill: str = Field(min_length=1, max_length=128)
    output_schema: Mapping[str, Any]
    """JSON Schema of an object."""
    media_type: str = "application/json"

    @field_validator("output_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        # Imported where somebody needs it: most agents have no schema.
        import jsonschema

        try:
            jsonschema.Draft202012Validator.check_schema({"type": "object", **value})
        except jsonschema.SchemaError as error:
            raise ValueError(f"it is no JSON Schema: {error.message}") from None
        if value.get("type", "object") != "object":
            raise ValueError("a result is an object: its schema must have type object, or none")
        return value


class Extensions(_Part):
    """What callers are told beside the answer and its cost."""

    tool_calls: bool = True
    """Which tools are called, with previews of arguments and results."""
    reasoning: bool = False
    """What the model thinks, where it says so."""
    data_parts: bool = False
    """Data also as parts, for callers that do not read metadata."""


class Limits(_Part):
    max_turn_seconds: int = Field(default=600, gt=0)
    max_tool_calls: int = Field(default=50, gt=0)
    """Calls of tools, peers included, that one message may cause."""
    max_request_bytes: int = Field(default=1024 * 1024, ge=1024)
    """Of the body of one request; what is larger is refused before it is read."""
    max_requests_per_minute: int | None = Field(default=None, gt=0)
    """By one caller; without it as many as there are."""
    max_tasks_per_caller: int = Field(default=100, gt=0)
    """That run at once."""
    max_streams_per_caller: int = Field(default=100, gt=0)
    """That are open at once."""
    stall_seconds: int = Field(default=0, ge=0)
    """A turn in which nothing happens for so long has failed; 0 measures nothing."""


class PushHost(_Part):
    """A receiver by its name, or by its address as it is written."""

    host: Annotated[str, AfterValidator(canonical_host)]
    port: int = Field(gt=0, lt=65536)


class Push(_Part):
    """Push notifications. Hosts and ranges that are named are all that is allowed; without any, all that is public."""

    key_file: str
    """Path below the configuration folder: the keys that seal credentials in the task log, the newest first."""
    allowed_hosts: tuple[PushHost, ...] = ()
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()


class AgentConfig(_Part):
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
    skills: tuple[Skill, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    peers: tuple[Peer, ...] = ()
    compaction: Compaction = Compaction()
    limits: Limits = Limits()
    approvals: Approvals = Approvals()
    extensions: Extensions = Extensions()
    results: tuple[TypedResult, ...] = ()
    ask_human: bool = False
    """Whether the agent may put questions and forms to clients that call it."""
    drain_seconds: int = Field(default=30, gt=0)
    accept_api_key: bool = False
    """Whether clients may send their token in the header X-API-Key; agents never do."""
    dialects: tuple[DialectName, ...] = Field(default=tuple(DialectName), min_length=1)
    """The versions of the protocol that are spoken."""
    push: Push | None = None
    """Without it clients cannot ask for push notifications, and the card says so."""
    allowed_origins: tuple[str, ...] = ()
    """Pages whose scripts may call, by the origin that their browser states; programs state none."""
    task_retention_seconds: int = Field(default=24 * 3600, gt=0)
    """How long a task that has ended can be read; one that waits for its caller is kept."""

    @model_validator(mode="after")
    def _instructed(self) -> Self:
        if bool(self.instructions.strip()) == (self.instructions_file is not None):
            raise ValueError("exactly one of instructions and instructionsFile is needed")
        return self
