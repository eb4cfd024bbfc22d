"""`fleetwright dev`: assembles the parts, watches the folder, and stops all processes at exit."""

import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
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
from fleetwright_cli.dev.workspace.known_states import claim_state
from fleetwright_cli.dev.workspace.local_workspaces import LocalWorkspaces, RunFiles, find_bwrap
from fleetwright_cli.dev.workspace.places import (
    find_program,
    is_below,
    require_outside_home,
    resolve_place,
    trusted_environment,
)
from fleetwright_cli.dev.workspace.task_cgroups import TaskCgroups
from fleetwright_cli.terminal.transport.dev_fleet import state_home
from fleetwright_workspace.executor.task_limit import DEFAULT_PROCESSES, to_task_limit

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
        untrusted = (*options.workspaces.values(), options.state.resolve() / "agents")
        require_outside_home(options.workspaces, environ)
        options = replace(
            options,
            folder=resolve_place(options.folder, untrusted, "-f"),
            state=resolve_place(options.state, untrusted, "--state"),
        )
        inherited = trusted_environment(environ, untrusted, Path.cwd())
        states = claim_state(options.state, tuple(options.workspaces.values()), state_home(environ).resolve())
        run_files = _run_files(options, environ, inherited, states)
        is_live = not any(is_below(path, untrusted) for path in run_files.manifests)
        _private(options.state)
        running = Processes(options.state / "logs", environ=inherited, folder=options.state / "run")
        with _alone(options.state), ExitStack() as ended, running as processes:
            provider = _provider(environ, processes, say)
            workspaces = LocalWorkspaces(
                options.state,
                processes,
                say,
                folders=options.workspaces,
                unsafe=options.unsafe_workspace,
                find_sandbox=lambda: find_bwrap(inherited, untrusted),
                run_files=run_files,
                cgroups=_make_root_cgroups(ended),
            )
            ended.callback(workspaces.disarm_repositories)
            fleet = FleetRun(
                options.folder,
                state=options.state,
                processes=processes,
                provider=provider,
                catalog=_catalog(options.catalog),
                say=say,
                workspaces=workspaces,
                contacts=options.contacts,
                is_live=is_live,
                untrusted=untrusted,
            )
            with closing(workspaces), closing(fleet):
                fleet.apply()
                say("ready")
                wrong = _demonstrate(options, fleet, provider)
                unfinished = False
                if options.conversation is None or options.keep:
                    _explain(fleet, options, is_live=is_live)
                    _stay(options.folder, fleet, processes, say, is_live=is_live)
                return 1 if wrong else 0
    except (InvalidFleet, ProcessFailed, OSError, A2AError, httpx.HTTPError) as error:
        click.echo(f"fleetwright dev: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        click.echo("\nended")
        return _INTERRUPTED if unfinished else 0


def _make_root_cgroups(ended: ExitStack) -> TaskCgroups | None:
    """Return the cgroups for the shells of root, which are removed at the end. None for other users."""
    if os.getuid():
        return None
    cgroups = TaskCgroups(os.getpid(), to_task_limit(DEFAULT_PROCESSES))
    ended.callback(cgroups.remove)
    return cgroups


def _run_files(
    options: Options, environ: Mapping[str, str], inherited: Mapping[str, str], states: Collection[Path]
) -> RunFiles:
    """Return the files that commands of the workspaces must not change. `states` are the known states of all runs."""
    untrusted = (*options.workspaces.values(), options.state / "agents")
    documents = [*options.folder.glob("*.yaml"), *options.folder.glob("*.yml")]
    linked = [resolve_place(path, untrusted, "-f") for path in documents if path.is_symlink()]
    folders = [Path(sys.prefix), Path(sys.base_prefix), *(Path(entry) for entry in sys.path if Path(entry).is_dir())]
    return RunFiles(
        manifests=(options.folder, *linked),
        states=(options.state, state_home(environ).resolve(), *states),
        programs=tuple(dict.fromkeys(folder.resolve() for folder in folders)),
        git=find_program("git", inherited, untrusted, Path.cwd()),
        environ=inherited,
    )


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


def _explain(fleet: FleetRun, options: Options, *, is_live: bool) -> None:
    changes = (
        "Changes in the folder are applied at once."
        if is_live
        else f"Changes of {options.folder} are applied at the next start, because it lies in a workspace."
    )
    click.echo(f"\nThe fleet keeps running; press Ctrl-C to stop it. {changes}")
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


def _stay(folder: Path, fleet: FleetRun, processes: Processes, say: Callable[[str], None], *, is_live: bool) -> None:
    """Apply changes of the folder until the interrupt. An invalid change is reported, and the running fleet stays.

    Args: `is_live` is False if changes of the folder count at the next start only.
    """
    for changes in watchfiles.watch(folder, rust_timeout=1000, yield_on_timeout=True):
        lost = fleet.ended()
        for name in lost:
            if not fleet.lost(name):
                raise ProcessFailed(f"{name} ended by itself; see {processes.log(name)}")
            say(f"{name} ended by itself; see {processes.log(name)}")
        if not ((changes and is_live) or lost or fleet.end_replaced_workspaces()):
            continue
        try:
            fleet.apply()
        except (InvalidFleet, ProcessFailed) as error:
            say(f"not applied: {error}")
            # A process that did not start is not restarted before the next change.
            for name in fleet.ended():
                processes.end(name)
