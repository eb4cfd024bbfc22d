"""Runs the cases against one agent, and writes the reports."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import click

from fleetwright_a2a.extensions import MODEL
from fleetwright_cli.evaluation.cases import EvaluationCase, InvalidEvaluation, Observation, problems, read_cases
from fleetwright_cli.evaluation.reports import CaseResult, json_report, junit, table
from fleetwright_cli.terminal.headless.outcome import ExitCode
from fleetwright_cli.terminal.headless.runner import HeadlessRun, RunSettings
from fleetwright_cli.terminal.model.changes import Change, ToolChanged
from fleetwright_cli.terminal.session.chat_session import ChatSession
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint
from fleetwright_cli.terminal.transport.errors import AgentNotFound, TransportError

_PATIENCE_SECONDS = 60.0
_LARGEST_FILE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    file: Path
    repeat: int = 1
    models: tuple[str, ...] = ("",)
    """The models to ask for, each with all cases. An empty text is the agent's own model."""
    workspace: Path | None = None
    """A folder whose files the expectations of `files` refer to."""
    output: str = "text"
    junit: Path | None = None
    settings: RunSettings = field(default_factory=RunSettings)


def evaluate(options: EvaluationOptions, endpoint: AgentEndpoint) -> bool:
    """Run all cases, and return whether every case has passed.

    Raises:
        click.UsageError: The file is not an evaluation.
        SystemExit: The agent cannot be reached; the code is that of `run`.
    """
    try:
        cases = read_cases(options.file.read_text())
        if options.workspace is None and (named := next((each for each in cases if each.expect.files), None)):
            raise InvalidEvaluation(f"case {named.name!r} expects files; name their folder with --workspace")
        results = asyncio.run(_results(options, cases, endpoint))
    except InvalidEvaluation as error:
        raise click.UsageError(f"{options.file}: {error}") from None
    except TransportError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(ExitCode.USAGE if isinstance(error, AgentNotFound) else ExitCode.UNREACHABLE)
    click.echo(json_report(results) if options.output == "json" else table(results))
    if options.junit is not None:
        options.junit.write_text(junit(results))
    return all(result.passed for result in results)


async def _results(
    options: EvaluationOptions, cases: Sequence[EvaluationCase], endpoint: AgentEndpoint
) -> list[CaseResult]:
    client = AgentClient(endpoint)
    try:
        await client.card()  # An agent that cannot be reached fails here, and not in every case.
        return [await _result(options, case, client, model) for model in options.models for case in cases]
    finally:
        await client.close()


async def _result(options: EvaluationOptions, case: EvaluationCase, client: AgentClient, model: str) -> CaseResult:
    started = time.monotonic()
    settings = replace(options.settings, metadata={MODEL: model} if model else {})
    options = replace(options, settings=settings)
    seen = [await _observed(options, case, client) for _ in range(options.repeat)]
    costs = [each.cost for each in seen if each.cost is not None]
    return CaseResult(
        name=case.name,
        model=model,
        runs=[problems(case.expect, each, model=model) for each in seen],
        seconds=time.monotonic() - started,
        cost=sum(costs, Decimal(0)) if costs else None,
    )


async def _observed(options: EvaluationOptions, case: EvaluationCase, client: AgentClient) -> Observation:
    """Hold the conversation of a case, in a context of its own. A message that fails ends the conversation."""
    tools: dict[str, tuple[str, bool]] = {}

    def collect(change: Change) -> None:
        if isinstance(change, ToolChanged):
            tools[change.card.call_id] = (change.card.name, change.card.ok is True)

    context, cost, state, answer = str(uuid4()), Decimal(0), "", ""
    priced, models = False, set[str]()
    for message in case.say:
        run = HeadlessRun(options.settings, collect)
        session = ChatSession(client, context, on_change=run.on_change, patience=_PATIENCE_SECONDS)
        outcome = await run.run(session, message)
        state, answer = outcome.state, outcome.answer
        models.update(outcome.cost.models if outcome.cost is not None else ())
        if outcome.cost is not None and outcome.cost.usd is not None:
            cost, priced = cost + outcome.cost.usd, True
        if outcome.code:
            break
    files = {path: read_workspace_file(options.workspace, path) for path in case.expect.files}
    return Observation(
        state=state,
        answer=answer,
        tools=tuple(tools.values()),
        cost=cost if priced else None,
        models=frozenset(models),
        files=files,
    )


def read_workspace_file(workspace: Path | None, path: str) -> str | None:
    """Return the text of a file of the workspace; None if it has no such file.

    A command of the workspace may have made a link that leads out of it, or a pipe that never ends. They count as
    missing. Only the first 16 MiB of a file are read.
    """
    if workspace is None:
        return None
    try:
        real = (workspace / path).resolve()
        if not (real.is_relative_to(workspace.resolve()) and real.is_file()):
            return None
        # Without O_NONBLOCK, a pipe that replaces the file now would block until somebody writes to it.
        with os.fdopen(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            return file.read(_LARGEST_FILE).decode(errors="replace")
    except (OSError, RuntimeError):  # Python 3.11 raises RuntimeError for a loop of links.
        return None
