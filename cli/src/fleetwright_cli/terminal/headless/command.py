"""`fleetwright run`: connects, runs one prompt, writes the outcome, and returns the exit code."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from fleetwright_cli.terminal.headless.approval_rules import InvalidPolicy, approval_rules
from fleetwright_cli.terminal.headless.outcome import ExitCode, RunOutcome
from fleetwright_cli.terminal.headless.output import JsonOutput, RunOutput, StreamOutput, TextOutput
from fleetwright_cli.terminal.headless.prompt_input import InvalidPrompt, prompt_of
from fleetwright_cli.terminal.headless.runner import HeadlessRun, RunSettings
from fleetwright_cli.terminal.session.chat_session import ChatSession
from fleetwright_cli.terminal.session.conversations import conversations
from fleetwright_cli.terminal.session.local_index import IndexEntry, LocalIndex, index_file
from fleetwright_cli.terminal.session.messages import Picture
from fleetwright_cli.terminal.session.pictures import InvalidPicture, picture_of
from fleetwright_cli.terminal.transport.addresses import AddressOptions, AgentNotSpecified, endpoint_of
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint
from fleetwright_cli.terminal.transport.errors import (
    AgentNotFound,
    AgentUnauthorized,
    AgentUnreachable,
    TransportError,
)

_PATIENCE: Final = 60.0
_HINT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    address: AddressOptions
    prompt: str | None
    output_format: str = "text"
    approve: str = "none"
    resume: str | None = None
    newest: bool = False
    """True to continue the newest conversation with the agent."""
    task: str | None = None
    images: tuple[Path, ...] = ()
    settings: RunSettings = field(default_factory=RunSettings)


def run_headless(options: RunOptions, environ: Mapping[str, str]) -> int:
    """Run, and return the exit code."""
    try:
        settings = replace(options.settings, rules=approval_rules(options.approve))
        endpoint = endpoint_of(options.address, environ, Path.cwd())
        pictures = tuple(map(picture_of, options.images))
        with _stdin() as stdin:
            prompt = prompt_of(options.prompt, stdin)
    except (AgentNotSpecified, InvalidPolicy, InvalidPrompt, InvalidPicture, OSError) as error:
        return _ended(ExitCode.USAGE, error)
    except TransportError as error:
        return _ended(ExitCode.UNREACHABLE, error)
    output = _output(options.output_format)
    index = LocalIndex(index_file(environ))
    try:
        outcome = asyncio.run(_run(options, settings, endpoint, prompt, pictures, output, index))
    except AgentNotFound as error:
        outcome = RunOutcome(code=ExitCode.USAGE, state="rejected", reason=str(error))
    except (AgentUnreachable, AgentUnauthorized) as error:
        outcome = RunOutcome(code=ExitCode.UNREACHABLE, state="unreachable", reason=str(error))
    except TransportError as error:
        outcome = RunOutcome(code=ExitCode.FAILED, state="rejected", reason=str(error))
    try:
        output.end(outcome)
    except BrokenPipeError:
        # The reader has ended. Python would report the same error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(outcome.code)


async def _run(
    options: RunOptions,
    settings: RunSettings,
    endpoint: AgentEndpoint,
    prompt: str,
    pictures: tuple[Picture, ...],
    output: RunOutput,
    index: LocalIndex,
) -> RunOutcome:
    run = HeadlessRun(settings, output.change)
    client = AgentClient(endpoint)
    with _signals(run):
        session: ChatSession | None = None
        try:
            if isinstance(endpoint, ClusterEndpoint):
                await endpoint.prepare()
            card = await client.card()
            context_id = options.resume or ""
            if context_id and not await _is_known(client, index, context_id):
                reason = f"--resume: no conversation {context_id!r} with this agent is known; leave the option out"
                return RunOutcome(code=ExitCode.USAGE, state="rejected", reason=reason)
            if options.newest and not context_id:
                context_id = await _newest(client, index)
            session = ChatSession(client, context_id or str(uuid4()), on_change=run.on_change, patience=_PATIENCE)
            output.begin({"agent": card.name, "contextId": session.state.context_id})
            if options.task is not None:
                return await run.answer(session, options.task, prompt)
            outcome = await run.run(session, prompt, pictures)
            cost = "" if outcome.cost is None or outcome.cost.usd is None else f"{outcome.cost.usd:f}"
            with contextlib.suppress(OSError):
                index.record(IndexEntry(endpoint.key, outcome.context_id, prompt, time.time(), cost))
            return outcome
        finally:
            await (client.close() if session is None else session.close())


async def _is_known(client: AgentClient, index: LocalIndex, context_id: str) -> bool:
    """Return whether the agent lists tasks of a conversation, or the index has it. Raises: TransportError."""
    if any(each.context_id == context_id for each in index.of(client.endpoint.key)):
        return True
    return bool((await client.tasks(contextId=context_id, pageSize=1)).get("tasks"))


async def _newest(client: AgentClient, index: LocalIndex) -> str:
    """Return the newest conversation with the agent. Raises: AgentUnreachable, RequestError."""
    listed = await conversations(client, index.of(client.endpoint.key))
    newest = max(listed, key=lambda each: each.used, default=None)
    return "" if newest is None else newest.context_id


def _output(name: str) -> RunOutput:
    match name:
        case "json":
            return JsonOutput(sys.stdout)
        case "stream-json":
            return StreamOutput(sys.stdout)
    return TextOutput(sys.stdout, sys.stderr)


@contextlib.contextmanager
def _stdin() -> Iterator[BinaryIO | None]:
    """Yield standard input, or None if it is a terminal. Tell the user if its end does not come."""
    if sys.stdin is None or sys.stdin.isatty():
        yield None
        return
    hint = threading.Timer(_HINT_SECONDS, _hint)
    hint.daemon = True
    hint.start()
    try:
        yield sys.stdin.buffer
    finally:
        hint.cancel()


def _hint() -> None:
    print("waiting for the end of standard input; without input, add </dev/null", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _signals(run: HeadlessRun) -> Iterator[None]:
    """Cancel the task at the first interrupt. The second one ends this program at once."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        run.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _ended(code: ExitCode, error: Exception) -> int:
    print(f"fleetwright run: {error}", file=sys.stderr)
    return int(code)
