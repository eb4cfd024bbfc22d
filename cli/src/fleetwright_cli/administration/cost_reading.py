"""Reads the costs of one agent, or of all agents of a namespace or of a local fleet."""

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fleetwright_api import names
from fleetwright_cli.administration.addresses import admin_client
from fleetwright_cli.administration.admin_client import Json
from fleetwright_cli.terminal.transport.dev_fleet import default_state, dev_agents, runs_in
from fleetwright_cli.terminal.transport.errors import TransportError
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, place_options

PATH: Final = "/admin/costs"
_AT_ONCE: Final = 8


@dataclass(slots=True)
class FleetCosts:
    """The rows of all agents that answered, and why the others did not."""

    rows: list[Json] = field(default_factory=list)
    failures: dict[str, TransportError] = field(default_factory=dict)


async def read_costs(agent: str | None, since: str | None, options: dict[str, Any]) -> FleetCosts:
    """Return the costs of an agent; without a name, those of all agents that the options select.

    Raises: TransportError: The agents cannot be listed.
    """
    parameters = {"since": since} if since is not None else {}
    found, free = FleetCosts(), asyncio.Semaphore(_AT_ONCE)

    async def read(name: str | None) -> None:
        async with free:
            try:
                client = await admin_client(name, options)
                try:
                    answer = await client.call("GET", PATH, parameters)
                    title = client.endpoint.title
                finally:
                    await client.close()
            except TransportError as error:
                found.failures[name or ""] = error
            else:
                found.rows += [{"agent": title, **row} for row in answer.get("costs", ()) if isinstance(row, dict)]

    chosen = [agent] if agent is not None or options["url"] is not None else await _agents(options)
    await asyncio.gather(*map(read, chosen))
    return found


async def _agents(options: dict[str, Any]) -> list[str]:
    """Return the names of the agents of the local fleet or of the namespace."""
    given = options["state"] is not None or options["folder"] is not None
    state = options["state"] or default_state(options["folder"] or Path.cwd(), os.environ)
    if options["namespace"] is None and options["context"] is None and (given or runs_in(state)):
        return sorted(dev_agents(state))
    place = place_options(options["context"], options["namespace"])
    listed = await kubectl_json("kubectl", (*place, "get", f"agents.{names.GROUP}"))
    return sorted(str(each["metadata"]["name"]) for each in listed.get("items") or ())


def first_day(text: str, now: datetime) -> str:
    """Return the day that `--since` names: a day such as 2026-11-01, or a number of days such as 7d.

    Raises: ValueError.
    """
    if text.endswith("d") and text[:-1].isascii() and text[:-1].isdigit() and len(text) < 6:
        return (now.astimezone(UTC) - timedelta(days=int(text[:-1]))).strftime("%Y-%m-%d")
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).strftime("%Y-%m-%d")
