"""`fleetwright say`: sends one message to one agent, and prints the answer and its cost."""

import asyncio
import json
import time
from pathlib import Path

import click
import httpx
from a2a.utils.errors import A2AError

from fleetwright_cli.dev.conversation import Address, Conversation, Reply
from fleetwright_cli.safe_text import one_line, safe_text
from fleetwright_cli.terminal.transport.dev_fleet import ADDRESSES

_RETRY_SECONDS = 0.5


def address_of(agent: str, state: Path) -> Address:
    """Return the address of an agent, which a running `fleetwright dev` wrote to its state folder.

    Raises:
        click.ClickException: No fleet runs there, or it has no such agent.
    """
    try:
        known = json.loads((state / ADDRESSES).read_text())
    except FileNotFoundError:
        raise click.ClickException(f"no fleet runs in {state}; start one with `fleetwright dev`") from None
    if agent not in known:
        raise click.ClickException(f"the fleet has no agent {agent!r}; it has {', '.join(sorted(known))}")
    return Address(**known[agent])


def say(address: Address, text: str, *, context_id: str, wait: float, task_id: str = "") -> Reply:
    """Send a message and wait for the end of its task.

    An agent that is not reachable is retried for `wait` seconds.

    Raises:
        click.ClickException: The agent is not reachable, or it returned an error.
    """
    deadline = time.monotonic() + wait

    async def once() -> Reply:
        async with httpx.AsyncClient(timeout=300, trust_env=False) as http:
            return await Conversation(address, http, context_id=context_id).say(text, task_id=task_id)

    while True:
        try:
            return asyncio.run(once())
        except A2AError as error:
            meaning = _meaning(error)
            if meaning is not None or time.monotonic() > deadline:
                raise click.ClickException(meaning or f"no connection to {address.url}") from None
        time.sleep(_RETRY_SECONDS)


def _meaning(error: BaseException) -> str | None:
    """Return the agent's error message, or None if the agent was not reachable."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.HTTPStatusError):
            status = cause.response.status_code
            return "the token is not accepted (401)" if status == 401 else f"the agent answered {status}"
        if isinstance(cause, httpx.TransportError):
            return None
        cause = cause.__cause__
    return safe_text(str(error))


def reply_report(reply: Reply) -> str:
    """Return a reply as text for a terminal: its cost, its text, and how to go on.

    The agent chooses every text of a reply, also the ids, so none may control the terminal.
    """
    way_on = f"to answer: --task {reply.task_id}" if reply.waits else f"to continue: --context {reply.context_id}"
    return safe_text(f"[{reply.spent}]\n{reply.text}\n") + f"({one_line(way_on, len(way_on))})"
