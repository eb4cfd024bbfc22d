"""`fleetwright-agent curate`: curates the learned skills while no agent uses the memory volume.

The command prints one line of JSON for each owner with the merged and pruned skills, and a last line with the totals.
With `--dry-run` it changes nothing. It fails if the agent's configuration does not enable learned skills.
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
    from fleetwright_agent.storage.learned_skills import CurationResult


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    curate = commands.add_parser("curate", help="curate the learned skills: merge similar ones, prune weak ones")
    curate.add_argument("--root", type=Path, default=Path("/"), help="folder of the mounted files (default: /)")
    curate.add_argument("--dry-run", action="store_true", help="only print what would be done")
    curate.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError: Learned skills are not enabled or cannot all be read and written, or an agent
    serves.
    """
    layout = Layout(root=options.root)
    config = load(layout)
    if not config.memory.skills.enabled:
        raise ConfigurationError("this agent does not learn skills; set memory.skills.enabled to true")
    # Imported lazily, so that other commands do not import these modules.
    from fleetwright_agent.commands.curate.once import curate_once
    from fleetwright_agent.storage.errors import MemoryUnusable

    try:
        found = asyncio.run(curate_once(config, layout, dry_run=options.dry_run))
    except (MemoryUnusable, OSError) as error:
        raise ConfigurationError(f"not all learned skills could be curated: {error}") from error
    for line in _lines(found, dry_run=options.dry_run):
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")


def _lines(found: "Sequence[CurationResult]", *, dry_run: bool) -> Iterator[dict[str, Any]]:
    for each in found:
        yield {
            "owner": each.owner,
            "kept": [skill.draft.name for skill in each.plan.kept],
            "merged": [{"name": merge.skill.draft.name, "into": merge.into} for merge in each.plan.merged],
            "pruned": [skill.draft.name for skill in each.plan.pruned],
        }
    sums = {what: sum(len(getattr(each.plan, what)) for each in found) for what in ("kept", "merged", "pruned")}
    yield {"dryRun": dry_run, "owners": len(found), **sums}
