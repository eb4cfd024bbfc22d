"""`probe agent`: whether the agent that is mounted here could serve. Builds all of it and opens no door.

What lies elsewhere is not its matter: a model or an MCP server that cannot be reached stops no revision. Nor does a
plugin that cannot be loaded; the log has why.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.layout import Layout
from fleetwright_agent.mounted import ConfigurationError, check_addresses, check_memory, check_secrets, load


def declare(looks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    look = looks.add_parser("agent", help="whether the mounted agent could serve")
    look.add_argument("--root", type=Path, default=Path("/"), help="where the mounted files lie (default: /)")
    look.set_defaults(look_at=look_at)


async def look_at(options: argparse.Namespace) -> dict[str, Any]:
    """Raises: ConfigurationError."""
    layout = Layout(root=options.root)
    config = load(layout)
    check_memory(layout.memory)
    check_addresses(config, layout)
    check_secrets(config, layout)
    _check_skills(config, layout)
    try:
        await _build(config, layout)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"the runtime cannot be built: {type(error).__name__}: {error}") from error
    return {"revision": config.revision, "skills": len(config.skills), "mcpServers": len(config.mcp_servers)}


def _check_skills(config: AgentConfig, layout: Layout) -> None:
    for skill in config.skills:
        if not (layout.skill(skill.name) / "SKILL.md").is_file():
            raise ConfigurationError(f"skill {skill.name!r} is not mounted: there is no SKILL.md in its folder")


async def _build(config: AgentConfig, layout: Layout) -> None:
    """Every part that the first task would import, and both doors, with nothing opened that is stored."""
    from prometheus_client import CollectorRegistry

    from fleetwright_agent.app import create_app
    from fleetwright_agent.memory import knowledge, learned_skills, schema
    from fleetwright_agent.memory.database import Database
    from fleetwright_agent.memory.ledger import Ledger
    from fleetwright_agent.metrics import Metrics
    from fleetwright_agent.plugins.loading import Plugins
    from fleetwright_agent.server.auth import parse_callers
    from fleetwright_agent.server.card import parse_card
    from fleetwright_agent.server.clock import Clock
    from fleetwright_agent.server.watched import Watched
    from fleetwright_agent.telemetry.tracing import UNTOLD
    from fleetwright_agent.tools.offers import Offers
    from fleetwright_agent.trail import audit_trail
    from fleetwright_agent.turn.assembly import build_turn
    from fleetwright_agent.turn.books import Books
    from fleetwright_agent.turn.supplies import Supplies

    for problem in (
        Watched(layout.callers_file, parse_callers).read()[1],
        Watched(layout.card_file, parse_card).read()[1],
    ):
        if problem:
            raise ConfigurationError(problem)
    conversations = Database(layout.memory / schema.FILE, schema.SCHEMA)
    metrics = Metrics(CollectorRegistry())
    trail = audit_trail(config, layout, metrics, Clock())
    books = Books(config.budgets, Ledger(conversations, now=time.time), metrics, now=time.time)
    facts = knowledge.Knowledge(layout.memory / knowledge.FOLDER, now=time.time)
    skills = learned_skills.LearnedSkills(layout.memory / learned_skills.FOLDER, now=time.time)
    plugins = Plugins(config.plugins, metrics)
    turn = build_turn(
        Supplies(
            config=config,
            layout=layout,
            metrics=metrics,
            conversations=conversations,
            knowledge=facts,
            skills=skills,
            offers=Offers(),
            plugins=plugins,
            trail=trail,
            books=books,
            tracing=UNTOLD,
        )
    )
    app = create_app(config, layout=layout, turn=turn)
    await app.aclose()
    await turn.aclose()
    await plugins.aclose()
    await facts.aclose()
    await skills.aclose()
    await conversations.aclose()
    await trail.aclose()
