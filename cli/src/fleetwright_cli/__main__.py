"""The `fleetwright` command, also available as `kubectl fleetwright`. This module only defines the options."""

import os
import sys
import uuid
from pathlib import Path

import click

from fleetwright_cli.administration.commands import audit_group, cost_command, delegations_command, memory_group
from fleetwright_cli.administration.skill_commands import skills_group
from fleetwright_cli.approvals.options import approvals_command, approve_command, deny_command
from fleetwright_cli.completion import completion_command
from fleetwright_cli.conformance.command import probe_command
from fleetwright_cli.evaluation.options import eval_command
from fleetwright_cli.inspection.commands import agents_command, status_command, tasks_command, token_group, why_command
from fleetwright_cli.inspection.log_command import logs_command
from fleetwright_cli.inspection.report_command import report_command
from fleetwright_cli.team.options import team_group
from fleetwright_cli.terminal.commands import chat_command, run_command
from fleetwright_cli.terminal.transport.dev_fleet import default_state


@click.group()
@click.version_option(package_name="fleetwright")
def main() -> None:
    """Run fleets of A2A agents from YAML."""


main.add_command(chat_command)
main.add_command(run_command)
main.add_command(agents_command)
main.add_command(why_command)
main.add_command(status_command)
main.add_command(report_command)
main.add_command(tasks_command)
main.add_command(logs_command)
main.add_command(token_group)
main.add_command(memory_group)
main.add_command(skills_group)
main.add_command(audit_group)
main.add_command(cost_command)
main.add_command(delegations_command)
main.add_command(completion_command)
main.add_command(eval_command)
main.add_command(probe_command)
main.add_command(approvals_command)
main.add_command(approve_command)
main.add_command(deny_command)
main.add_command(team_group)


@main.command("offline-model")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, envvar="PORT")
@click.option("--api-key", default=None, help="Accept only this bearer token.")
@click.option(
    "--replay", type=click.Path(path_type=Path, dir_okay=False), help="Send this recorded response of a provider."
)
@click.option("--replays", type=click.IntRange(min=1), help="Send it to so many requests only, then answer by rules.")
def offline_model(host: str, port: int, api_key: str | None, replay: Path | None, replays: int | None) -> None:
    """Serve a deterministic OpenAI-compatible model, to try and test agents without a provider."""
    import uvicorn

    from fleetwright_cli.offline.model import OfflineModel
    from fleetwright_cli.offline.recording import InvalidRecording, load_recording

    if replays is not None and replay is None:
        raise click.UsageError("--replays needs --replay")
    try:
        recording = load_recording(replay) if replay is not None else None
    except InvalidRecording as error:
        raise click.ClickException(str(error)) from None
    app = OfflineModel(key=api_key, recording=recording, replays=replays).app()
    uvicorn.run(app, host=host, port=port, log_level="warning")


@main.command("offline-orders")
@click.option("--host", default="127.0.0.1", show_default=True, envvar="HOST")
@click.option("--port", default=8000, show_default=True, envvar="PORT")
def offline_orders(host: str, port: int) -> None:
    """Serve the examples' order book as an MCP server (streamable HTTP, path /mcp)."""
    from fleetwright_cli.offline.orders import orders_server

    orders_server(host=host, port=port).run("streamable-http")


@main.command()
@click.option("-f", "--folder", required=True, type=click.Path(path_type=Path), help="Folder of manifests.")
@click.option("--state", type=click.Path(path_type=Path), help="Folder for memory, credentials and logs.")
@click.option(
    "--catalog", type=click.Path(path_type=Path, exists=True), help="Model windows and prices, as in the chart."
)
@click.option(
    "--conversation", type=click.Path(path_type=Path, exists=True), help="Send these messages, report, and exit."
)
@click.option("--keep", is_flag=True, help="Keep running after the conversation.")
@click.option(
    "--contact-declared-hosts",
    "contacts",
    is_flag=True,
    help="Let agents connect to the hosts that their specs declare, and clone the sources of workspaces.",
)
@click.option(
    "--workspace",
    "workspaces",
    multiple=True,
    metavar="AGENT=FOLDER",
    help="Folder of an agent's workspace, instead of one below --state. Give it once for each agent.",
)
@click.option(
    "--unsafe-workspace",
    is_flag=True,
    help="Run commands of workspaces with your permissions if bubblewrap is missing.",
)
def dev(
    folder: Path,
    state: Path | None,
    catalog: Path | None,
    conversation: Path | None,
    keep: bool,
    contacts: bool,
    workspaces: tuple[str, ...],
    unsafe_workspace: bool,
) -> None:
    """Run a fleet on this machine without a cluster.

    Every agent is a process of the real runtime. An offline model answers unless OPENAI_API_KEY is set. OPENAI_BASE_URL
    and OPENAI_MODEL then select the provider and the model.
    """
    from fleetwright_cli.dev.workspace.folders import parse_folders, remove_import_folders

    try:
        chosen = parse_folders(workspaces)
        remove_import_folders(chosen.values(), os.environ, Path.cwd())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--workspace") from None
    # After the removal, because these imports are many.
    from fleetwright_cli.dev.command import Options, run

    options = Options(
        folder=folder,
        state=(state or default_state(folder, os.environ)).absolute(),
        catalog=catalog,
        conversation=conversation,
        keep=keep,
        contacts=contacts,
        workspaces=chosen,
        unsafe_workspace=unsafe_workspace,
    )
    sys.exit(run(options, os.environ))


@main.command()
@click.option("--state", type=click.Path(path_type=Path), help="State folder of a running `fleetwright dev`.")
@click.option(
    "--url", help="Address of an agent anywhere else, such as https://agents.example.com/agents/shop/support."
)
@click.option(
    "--token-file", type=click.Path(path_type=Path, exists=True), help="File with the bearer token for --url."
)
@click.option("--context", "context_id", help="Continue this conversation.")
@click.option("--task", "task_id", default="", help="Answer this waiting task.")
@click.option("--wait", default=0.0, help="Seconds to wait for an agent that is not reachable yet.")
@click.argument("words", nargs=-1, required=True)
def say(
    state: Path | None,
    url: str | None,
    token_file: Path | None,
    context_id: str | None,
    task_id: str,
    wait: float,
    words: tuple[str, ...],
) -> None:
    """Send one message: `say --state DIR AGENT TEXT`, or `say --url URL --token-file FILE TEXT`."""
    from fleetwright_cli.dev.conversation import Address
    from fleetwright_cli.say import address_of, reply_report
    from fleetwright_cli.say import say as send

    if url is not None and token_file is not None:
        address, text = Address(url, "", token_file.read_text().strip()), " ".join(words)
    elif state is not None and len(words) > 1:
        address, text = address_of(words[0], state), " ".join(words[1:])
    else:
        raise click.UsageError("give --state DIR AGENT TEXT, or --url URL --token-file FILE TEXT")
    context_id = context_id or str(uuid.uuid4())
    reply = send(address, text, context_id=context_id, wait=wait, task_id=task_id)
    click.echo(reply_report(reply))
    sys.exit(0 if reply.completed else 1)


if __name__ == "__main__":
    main()
