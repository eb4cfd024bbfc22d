"""A client for fleets over A2A: sends messages, and reads their cost and the agent's metrics."""

import re
import tomllib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import Message, Part, Role, SendMessageRequest, Task, TaskState
from prometheus_client.parser import text_string_to_metric_families

from fleetwright_a2a.extension_codec import read
from fleetwright_a2a.extensions import COST, TOOL_CALL
from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.terminal.transport.agent_card import below, path_of
from fleetwright_cli.terminal.transport.errors import RequestError

_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Exchange:
    title: str
    agent: str
    say: Sequence[str]
    answer: str = ""
    """Text that the last answer must contain. Checked only with the offline model."""
    grown: Sequence[str] = ()
    """Counters that must have increased, as `<agent> <metric>{<labels>}`. Checked only with the offline model."""


@dataclass(frozen=True, slots=True)
class Reply:
    state: str
    text: str
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    task_id: str = ""
    context_id: str = ""

    @property
    def waits(self) -> bool:
        """Return whether the task waits for the caller that started it."""
        return self.state == "input-required"

    @property
    def completed(self) -> bool:
        return self.state == "completed"

    @property
    def spent(self) -> str:
        used = self.input_tokens or self.output_tokens
        unknown = "no price" if used else "no cost"
        cost = unknown if self.cost_usd is None else f"{self.cost_usd:f} USD"
        return f"{self.state}; {self.input_tokens} tokens in, {self.output_tokens} out, {cost}"


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of an agent, and the token of one of its clients."""

    url: str
    ops_url: str
    """Empty if the operations port of the agent is not known."""
    token: str = field(repr=False)
    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The token of each client. Empty if the agent is reached through the gateway."""
    administrators: Sequence[str] = ()
    """The names of the clients that are administrators."""


def read_conversation(path: Path) -> list[Exchange]:
    """Read the exchanges of a TOML file.

    Raises:
        InvalidFleet: The file is not a conversation.
    """
    try:
        return [Exchange(**entry) for entry in tomllib.loads(path.read_text())["exchange"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidFleet(f"{path}: not a conversation: {error}") from None


class Conversation:
    """One context of one caller with one agent."""

    def __init__(self, address: Address, http: httpx.AsyncClient, *, context_id: str | None = None) -> None:
        self._address = address
        self._http = http
        self._context_id = context_id or str(uuid.uuid4())

    async def say(self, text: str, *, task_id: str = "") -> Reply:
        """Send a message, and wait until its task ends or waits for input.

        With a task id, the message answers that task.

        Raises:
            A2AClientError: The agent is not reachable, or its card or its answer is invalid.
        """
        credential = {"Authorization": f"Bearer {self._address.token}"}
        # The gateway shows a card only to callers that may call the agent.
        resolver = A2ACardResolver(self._http, self._address.url)
        card = await resolver.get_agent_card(http_kwargs={"headers": credential})
        # The user gave this address, perhaps that of a tunnel. The token is never sent to another address from the
        # card.
        try:
            for interface in card.supported_interfaces:
                interface.url = below(self._address.url, path_of(interface.url))
        except RequestError as error:
            raise A2AClientError(str(error)) from None
        config = ClientConfig(httpx_client=self._http, streaming=False, supported_protocol_bindings=["JSONRPC"])
        client = ClientFactory(config).create(card)
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        if task_id:
            message.task_id = task_id
        else:
            message.context_id = self._context_id
        context = ClientCallContext(timeout=_TIMEOUT, service_parameters=credential)
        task = Task()
        async for event in client.send_message(SendMessageRequest(message=message), context=context):
            if event.HasField("task"):
                task.CopyFrom(event.task)
        return reply_of(task)


def reply_of(task: Task) -> Reply:
    """Return the task's text for a person. The files of tools are named, but their content is not shown."""
    cost: Mapping[str, Any] = read(task.status.message, COST) or {}
    for artifact in task.artifacts:
        cost = read(artifact, COST) or cost
    usage = cost.get("usage", {})
    files = [artifact.name for artifact in task.artifacts if read(artifact, TOOL_CALL)]
    answers = (artifact for artifact in task.artifacts if not read(artifact, TOOL_CALL))
    text = "".join(part.text for artifact in answers for part in artifact.parts)
    text += "".join(f"\n[A tool returned the file {name}.]" for name in files)
    said = "".join(part.text for part in task.status.message.parts)
    return Reply(
        state=TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower().replace("_", "-"),
        text=text if task.status.state == TaskState.TASK_STATE_COMPLETED else said or text,
        input_tokens=int(usage.get("input_tokens", 0)),
        output_tokens=int(usage.get("output_tokens", 0)),
        cost_usd=Decimal(str(cost["costUsd"])) if "costUsd" in cost else None,
        task_id=task.id,
        context_id=task.context_id,
    )


Counters = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def counters(address: Address, http: httpx.AsyncClient) -> Counters:
    """Return every sample of an agent's metrics, by name and labels; none without an operations port."""
    if not address.ops_url:
        return {}
    text = (await http.get(f"{address.ops_url}/metrics")).raise_for_status().text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(found: Counters, selector: str) -> float:
    """Return the sum of a metric over the series that have the selector's labels.

    Raises:
        ValueError: The selector is not `<metric>` or `<metric>{label="value",…}`.
    """
    match = re.fullmatch(r"(\w+)(?:\{(.*)\})?", selector)
    if match is None:
        raise ValueError(f'{selector!r}: write metric{{label="value"}}')
    wanted = set(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
    return sum(value for (name, labels), value in found.items() if name == match.group(1) and wanted <= set(labels))
