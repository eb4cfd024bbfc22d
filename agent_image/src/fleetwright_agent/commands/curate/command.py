"""`fleetwright-agent curate`: looks through the learned skills now, beside an agent that serves or without one.

Prints a line of JSON for each owner, with what was merged and pruned, and last the sums. With `--dry-run` nothing is
changed. Refuses: an agent without learned skills in its configuration.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import ConfigurationError, load

if TYPE_CHECKING:
    from fleetwright_agent.storage.sqlite.learned_skills import Curated


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    curate = commands.add_parser("curate", help="look through the learned skills: merge what is there twice, prune")
    curate.add_argument("--root", type=Path, default=Path("/"), help="where the mounted files lie (default: /)")
    curate.add_argument("--dry-run", action="store_true", help="only say what would be done")
    curate.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError: there is nothing to curate, or it cannot be read or written."""
    layout = Layout(root=options.root)
    config = load(layout)
    if not config.memory.skills.enabled:
        raise ConfigurationError("this agent learns no skills: memory.skills.enabled is not true")
    # Not before they are needed: every other command would import them too.
    from fleetwright_agent.commands.curate.once import curated
    from fleetwright_agent.storage.sqlite.engine.database import MemoryUnusable

    try:
        found = asyncio.run(curated(config, layout, dry_run=options.dry_run))
    except (MemoryUnusable, OSError) as error:
        raise ConfigurationError(f"not all learned skills could be curated: {error}") from error
    for line in _lines(found, dry_run=options.dry_run):
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")


def _lines(found: "Sequence[Curated]", *, dry_run: bool) -> Iterator[dict[str, Any]]:
    for each in found:
        yield {
            "owner": each.owner,
            "kept": [skill.draft.name for skill in each.plan.kept],
            "merged": [{"name": merge.skill.draft.name, "into": merge.into} for merge in each.plan.merged],
            "pruned": [skill.draft.name for skill in each.plan.pruned],
        }
    sums = {what: sum(len(getattr(each.plan, what)) for each in found) for what in ("kept", "merged", "pruned")}
    yield {"dryRun": dry_run, "owners": len(found), **sums}
