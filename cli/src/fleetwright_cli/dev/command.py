"""`fleetwright dev`: assembles the parts, watches the folder, and stops all processes at exit."""

import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import click
import httpx
import watchfiles
import yaml
from a2a.utils.errors import A2AError

from fleetwright_api.model_catalog import Catalog, parse_catalog
from fleetwright_cli.dev.conversation import read_conversation
from fleetwright_cli.dev.demonstration import Demonstration
from fleetwright_cli.dev.fleet_run import NAMESPACE, FleetRun
from fleetwright_cli.dev.gateway.local_team import token_file
from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.processes import Processes, ProcessFailed, free_port
from fleetwright_cli.dev.provider import SubstituteProvider, provider_from
from fleetwright_cli.dev.workspace.local_workspaces import LocalWorkspaces, find_bwrap

_MODEL = "offline-model"
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    folder: Path
    state: Path
    catalog: Path | None
    conversation: Path | None
    keep: bool
    contacts: bool = False
    """True if agents may connect to the hosts that they declare."""
    workspaces: Mapping[str, Path] = field(default_factory=dict)
    """The folders that the user chose for workspaces, by agent."""
    unsafe_workspace: bool = False
    """True if commands of workspaces may run without a sandbox."""


def run(options: Options, environ: Mapping[str, str]) -> int:
    """Run the fleet, and return the exit status."""
    say = _clock()
    unfinished = options.conversation is not None
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _private(options.state)
        with _alone(options.state), Processes(options.state / "logs") as processes:
            provider = _provider(environ, processes, say)
            workspaces = LocalWorkspaces(
                options.state,
                processes,
                say,
                folders=options.workspaces,
                unsafe=options.unsafe_workspace,
                find_sandbox=find_bwrap,
            )
            fleet = FleetRun(
                options.folder,
                state=options.state,
                processes=processes,
                provider=provider,
                catalog=_catalog(options.catalog),
                say=say,
                workspaces=workspaces,
                contacts=options.contacts,
            )
            with closing(workspaces), closing(fleet):
                fleet.apply()
                say("ready")
                wrong = _demonstrate(options, fleet, provider)
                unfinished = False
                if options.conversation is None or options.keep:
                    _explain(fleet, options)
                    _stay(options.folder, fleet, processes, say)
                return 1 if wrong else 0
    except (InvalidFleet, ProcessFailed, OSError, A2AError, httpx.HTTPError) as error:
        click.echo(f"fleetwright dev: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        click.echo("\nended")
        return _INTERRUPTED if unfinished else 0


def _private(state: Path) -> None:
    """Make new files and existing databases readable by this user only."""
    os.umask(0o077)
    for path in state.rglob("*.db*"):
        path.chmod(0o600)


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Lock the state folder. Two fleets with one memory would each end the other's tasks.

    The lock ends with its process.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another `fleetwright dev` runs with {state}; end it, or give this one another --state"
            raise InvalidFleet(message) from None
        yield


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _clock() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda text: click.echo(f"{time.monotonic() - started:6.1f} s  {text}")


def _provider(environ: Mapping[str, str], processes: Processes, say: Callable[[str], None]) -> SubstituteProvider:
    port = free_port()
    provider = provider_from(environ, offline_url=f"http://127.0.0.1:{port}/v1")
    if provider.offline:
        say("starting the offline model server (set OPENAI_API_KEY to talk to a real provider)")
        processes.start(_MODEL, [sys.executable, "-m", "fleetwright_cli", "offline-model", "--port", str(port)])
        processes.wait_ready(_MODEL, f"http://127.0.0.1:{port}/healthz")
    else:
        say(f"models are answered by {provider.model} at {provider.base_url}")
    return provider


def _catalog(path: Path | None) -> Catalog:
    """Return the given catalog, or the one that the chart installs."""
    try:
        if path is None:
            values = resources.files("fleetwright_cli").joinpath("chart-values.yaml").read_text()
            return parse_catalog(yaml.safe_load(values)["catalog"])
        return parse_catalog(yaml.safe_load(path.read_text()))
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidFleet(f"{path}: {error}") from None


def _demonstrate(options: Options, fleet: FleetRun, provider: SubstituteProvider) -> list[str]:
    if options.conversation is None:
        return []
    exchanges = read_conversation(options.conversation)

    async def hold() -> list[str]:
        async with httpx.AsyncClient(timeout=300, trust_env=False) as http:
            return await Demonstration(fleet.addresses(), http, strict=provider.offline, say=click.echo).hold(exchanges)

    wrong = asyncio.run(hold())
    for fault in wrong:
        click.echo(f"WRONG  {fault}", err=True)
    click.echo(f"\n{len(exchanges)} exchanges, {len(wrong)} faults")
    return wrong


def _explain(fleet: FleetRun, options: Options) -> None:
    click.echo("\nThe fleet keeps running; press Ctrl-C to stop it. Changes in the folder are applied at once.")
    for name, address in fleet.addresses().items():
        click.echo(f"\n  {name}\n    card     {address.url}/.well-known/agent-card.json")
        click.echo(f"    A2A      {address.url}/a2a")
        if address.ops_url:
            click.echo(f"    metrics  {address.ops_url}/metrics")
        click.echo(f"    try      {sys.argv[0]} say --state {options.state} {name} 'Hello'")
    if fleet.gateway_url:
        token = token_file(options.state)
        click.echo(f"\n  gateway    {fleet.gateway_url}/agents/{NAMESPACE}/<agent>, and its API at /docs")
        click.echo(f'    try      curl -H "Authorization: Bearer $(cat {token})" {fleet.gateway_url}/v1/agents')
    click.echo(f"\n  logs       {options.state / 'logs'}\n")


def _stay(folder: Path, fleet: FleetRun, processes: Processes, say: Callable[[str], None]) -> None:
    """Apply changes of the folder until the interrupt. An invalid change is reported, and the running fleet stays."""
    for changes in watchfiles.watch(folder, rust_timeout=1000, yield_on_timeout=True):
        lost = fleet.ended()
        for name in lost:
            if not fleet.lost(name):
                raise ProcessFailed(f"{name} ended by itself; see {processes.log(name)}")
            say(f"{name} ended by itself; see {processes.log(name)}")
        if not changes and not lost:
            continue
        try:
            fleet.apply()
        except (InvalidFleet, ProcessFailed) as error:
            say(f"not applied: {error}")
            # A process that did not start is not restarted before the next change.
            for name in fleet.ended():
                processes.end(name)
