"""`fleetwright say`: one message to one agent, its answer and its cost."""

import asyncio
import json
from pathlib import Path

import click
import httpx

from fleetwright_cli.dev.conversation import Address, Conversation, Reply
from fleetwright_cli.dev.fleet_run import ADDRESSES


def address_of(agent: str, state: Path) -> Address:
    """The address that a running `fleetwright dev` left in its state folder.

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


def say(address: Address, text: str, *, context_id: str | None) -> Reply:
    """Sends the message and waits for the end of its task."""

    async def once() -> Reply:
        async with httpx.AsyncClient(timeout=300, trust_env=False) as http:
            return await Conversation(address, http, context_id=context_id).say(text)

    return asyncio.run(once())
