"""The command `probe`: runs the checks in order, and prints their results."""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from fleetwright_cli.cluster.tables import render, visible

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
_UNREACHABLE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    name: str
    section: str
    result: str
    is_required: bool
    problem: str = ""


@click.command("probe")
@click.option(
    "--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="File with the bearer token."
)
@click.option("--text", default="Good morning", show_default=True, help="The message that the server must answer.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("url")
def probe_command(url: str, token_file: Path | None, text: str, output: str) -> None:
    """Check whether the A2A server at URL behaves as A2A 1.0 demands.

    The exit code is 0 if every required check has passed, 1 if not, and 2 if the server cannot be reached.
    """
    import httpx

    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url!r} is not an HTTP URL; use http:// or https://")
    token = token_file.read_text().strip() if token_file else ""
    try:
        results = asyncio.run(run_checks(url, token, text))
    except httpx.RequestError as error:
        click.echo(f"Error: no connection to {url}: {type(error).__name__}", err=True)
        sys.exit(_UNREACHABLE)
    click.echo(_json(results) if output == "json" else _table(results))
    sys.exit(1 if any(each.result == FAILED and each.is_required for each in results) else 0)


async def run_checks(url: str, token: str, text: str) -> list[CheckResult]:
    """Run all checks in order. Raises: httpx.RequestError: the server cannot be reached."""
    import httpx

    from fleetwright_cli.conformance.checks import CHECKS, ProbeState
    from fleetwright_cli.conformance.connection import ProbedServer

    results: list[CheckResult] = []
    # The address is the user's own, so proxies and netrc files of the environment do not apply.
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        state = ProbeState(ProbedServer(http, url, token), text)
        for check in CHECKS:
            skipped = bool(check.capability) and not state.capability(check.capability)
            problem = "" if skipped else await check.run(state)
            word = SKIPPED if skipped else FAILED if problem else PASSED
            results.append(
                CheckResult(
                    name=check.name,
                    section=check.section,
                    result=word,
                    is_required=check.is_required,
                    problem=f"the card does not declare {check.capability}" if skipped else problem,
                )
            )
            if not state.card:
                break  # Without a card there is no address for the other checks.
    return results


def _table(results: list[CheckResult]) -> str:
    head = ("CHECK", "SECTION", "RESULT", "PROBLEM")
    rows = [
        (
            each.name,
            each.section,
            each.result if each.is_required or each.result != FAILED else "failed (optional)",
            visible(each.problem) or "-",
        )
        for each in results
    ]
    return render([head, *rows])


def _json(results: list[CheckResult]) -> str:
    return json.dumps(
        [
            {
                "name": each.name,
                "section": each.section,
                "result": each.result,
                "required": each.is_required,
                "problem": each.problem,
            }
            for each in results
        ],
        indent=2,
    )
