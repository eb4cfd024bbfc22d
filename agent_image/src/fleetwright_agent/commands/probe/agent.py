"""`probe agent`: checks that the mounted agent can start. It builds every part and opens no port.

Remote services are not checked: an unreachable model or MCP server does not block a revision. A plugin that fails to
load does not block a revision either; the log contains the reason.
"""

import argparse
from pathlib import Path
from typing import Any

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import (
    ConfigurationError,
    check_addresses,
    check_memory,
    check_secrets,
    load,
)
from fleetwright_agent.process import executors


def declare(looks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    look = looks.add_parser("agent", help="check that the mounted agent can start")
    look.add_argument("--root", type=Path, default=Path("/"), help="folder of the mounted files (default: /)")
    look.set_defaults(look_at=probe_agent)


async def probe_agent(options: argparse.Namespace) -> dict[str, Any]:
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
    """Build both ASGI apps and all parts that the first task imports, without opening any store."""
    from fleetwright_a2a.card import parse_card
    from fleetwright_agent.app import create_app
    from fleetwright_agent.config.file_watcher import FileWatcher
    from fleetwright_agent.server.auth import parse_callers

    for problem in (
        FileWatcher(layout.callers_file, parse_callers).read()[1],
        FileWatcher(layout.card_file, parse_card).read()[1],
    ):
        if problem:
            raise ConfigurationError(problem)
    executor = executors.load_executor(config.executor) if config.executor else None
    app = create_app(config, layout=layout, executor=executor)
    try:
        if executor is None:
            await app.build()
    finally:
        await app.aclose()
