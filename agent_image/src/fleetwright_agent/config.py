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
    cache_write_per_million: Decimal | None = Field(default=None, ge=0)


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


def _checked_schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    # Imported where somebody needs it: most agents have no schema.
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema({"type": "object", **value})
    except jsonschema.SchemaError as error:
        raise ValueError(f"it is no JSON Schema: {error.message}") from None
    return value


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


class CompactionPrune(_Part):
    """Old, long results of tools are shown as their beginning and end; the whole stays in the archive."""

    context_fraction: Fraction = Decimal("0.6")
    """From this filling on, where it pays for itself; a cold cache or a reached trigger asks for no filling."""
    over_chars: int = Field(default=4000, gt=0)
    head: int = Field(default=1000, ge=0)
    tail: int = Field(default=500, ge=0)
    idle_after_seconds: int = Field(default=300, gt=0)
    """After so long without a call the provider's cache of the prompt is taken for cold."""
    max_payback_calls: int = Field(default=10, gt=0)
    except_tools: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.head + self.tail >= self.over_chars:
            raise ValueError("prune.head and prune.tail together must be below prune.overChars")
        return self


class SummaryModel(_Part):
    """Another model at the same address, for summaries."""

    name: str = Field(min_length=1, max_length=253)
    context_window: int = Field(gt=0)
    price: Price | None = None


class CompactionSummary(_Part):
    model: SummaryModel | None = None
    """Used where the cache is cold or it is cheaper than the agent's own model on its warm cache."""
    max_tokens: int = Field(default=4000, gt=0)
    """Of all that stands for the earlier conversation but the pins."""
    timeout_seconds: int = Field(default=60, gt=0)
    instructions: str = ""
    """Appended to the built-in instruction, never instead of it."""


class PinKind(StrEnum):
    POLICY = "Policy"
    """What callers said must always or never be done."""
    SKILLS = "Skills"
    """Skills that were read, from their folder."""
    PLAN = "Plan"
    TODOS = "Todos"
    """The newest call of a tool whose name says plan, or todo."""


class CompactionPin(_Part):
    """What is shown to the letter after a compaction, whatever the summary says."""

    kinds: tuple[PinKind, ...] = tuple(PinKind)
    max_tokens: int = Field(default=8000, gt=0)


class CompactionArchive(_Part):
    """The messages that a summary stands for."""

    retain_seconds: int = Field(default=168 * 3600, gt=0)
    recall_tool: bool = True
    """Whether the model may search them."""


class CompactionGuard(_Part):
    min_gain: Fraction = Decimal("0.2")
    """A compaction that shortens the prompt by less changes nothing."""
    max_failures: int = Field(default=3, gt=0)
    """After so many in a row it is left alone until the caller's next message."""


class Compaction(_Part):
    mode: CompactionMode = CompactionMode.ENFORCE
    trigger: CompactionTrigger = CompactionTrigger()
    keep: CompactionKeep = CompactionKeep()
    prune: CompactionPrune = CompactionPrune()
    summary: CompactionSummary = CompactionSummary()
    pin: CompactionPin = CompactionPin()
    archive: CompactionArchive = CompactionArchive()
    guard: CompactionGuard = CompactionGuard()


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


class Period(StrEnum):
    HOUR = "Hour"
    DAY = "Day"
    MONTH = "Month"


class Exceeded(StrEnum):
    REJECT = "Reject"
    """The task ends, and says which budget it was and when there is room."""
    PAUSE = "Pause"
    """The task waits for its caller's word; an agent that calls is rejected."""


class Downgrade(_Part):
    """From this part of a budget on, another model at the same address works."""

    at: Fraction = Decimal("0.8")
    model: SummaryModel


class Budget(_Part):
    """What all model calls of the agent together may cost within a calendar window, in UTC."""

    period: Period
    usd: Decimal | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    warn_at: Fraction = Decimal("0.8")
    downgrade: Downgrade | None = None
    on_exceeded: Exceeded = Exceeded.REJECT

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.usd is None and self.tokens is None:
            raise ValueError("a budget needs usd or tokens")
        return self


class CallLimit(_Part):
    """How often a tool may be called by all turns together; `*` is all tools together."""

    tool: str = Field(min_length=1, max_length=64)
    max: int = Field(gt=0, le=10_000)
    window_seconds: int = Field(gt=0)


class ArgumentRule(_Part):
    """A call of the tool runs only with arguments that the schema allows, whatever the tool itself would take."""

    tool: str = Field(min_length=1, max_length=64)
    json_schema: Mapping[str, Any] = Field(alias="schema")

    @field_validator("json_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        return _checked_schema(value)


class Enforcement(_Part):
    """What no turn may do, whatever the model wants (PA-080). Tools by the names that the model knows."""

    deny: tuple[str, ...] = ()
    arguments: tuple[ArgumentRule, ...] = ()
    limits: tuple[CallLimit, ...] = ()


class AuditMode(StrEnum):
    BEST_EFFORT = "BestEffort"
    """A line that cannot be written is counted, and the call runs."""
    REQUIRED = "Required"
    """A call runs only when the line that it begins is on disk."""
    OFF = "Off"


class Audit(_Part):
    mode: AuditMode = AuditMode.BEST_EFFORT
    max_bytes: int = Field(default=50 * 1024 * 1024, ge=64 * 1024)
    """Of the file, and of the one before it, which is kept."""


class TypedResult(_Part):
    """The shape that answers to one skill of the card have as data, beside their text."""

    skill: str = Field(min_length=1, max_length=128)
    output_schema: Mapping[str, Any]
    """JSON Schema of an object."""
    media_type: str = "application/json"

    @field_validator("output_schema")
    @classmethod
    def _usable(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        _checked_schema(value)
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
    max_waiting_tasks_per_caller: int = Field(default=1000, gt=0)
    """That wait for its answer; with as many of them it begins no other."""
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
    enforcement: Enforcement = Enforcement()
    audit: Audit = Audit()
    budgets: tuple[Budget, ...] = ()
    extensions: Extensions = Extensions()
    results: tuple[TypedResult, ...] = ()
    ask_human: bool = False
    """Whether the agent may put questions and forms to clients that call it."""
    drain_seconds: int = Field(default=30, gt=0)
    require_routable_url: bool = False
    """Whether the agent starts only where its card names addresses that others can reach."""
    ephemeral_memory: bool = False
    """Memory ends with the pod: what is not done by then cannot go on in the next one."""
    accept_api_key: bool = False
    """Whether clients may send their token in the header X-API-Key; agents never do."""
    dialects: tuple[DialectName, ...] = Field(default=tuple(DialectName), min_length=1)
    """The versions of the protocol that are spoken."""
    push: Push | None = None
    """Without it clients cannot ask for push notifications, and the card says so."""
    allowed_origins: tuple[str, ...] = ()
    """Pages whose scripts may call, by the origin that their browser states; programs state none."""
    denied_ranges: tuple[IPv4Network | IPv6Network, ...] = ()
    """Of the installation: what nothing that this agent opens by itself may lead to."""
    task_retention_seconds: int = Field(default=24 * 3600, gt=0)
    """How long a task that has ended can be read; one that waits for its caller is kept."""

    @model_validator(mode="after")
    def _instructed(self) -> Self:
        if bool(self.instructions.strip()) == (self.instructions_file is not None):
            raise ValueError("exactly one of instructions and instructionsFile is needed")
        return self
