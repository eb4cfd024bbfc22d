"""The commands `chat` and `run`. This module only defines the options."""

import os
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fleetwright_cli.terminal.transport.addresses import AddressOptions

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
ADDRESS = (
    click.option("--url", help="Address of an agent anywhere, without the path of its card."),
    click.option("--token-file", type=_FILE, help="File with the bearer token for --url."),
    click.option("--state", type=click.Path(path_type=Path), help="State folder of a running `fleetwright dev`."),
    click.option("-f", "--folder", type=click.Path(path_type=Path), help="Folder of a running `fleetwright dev -f`."),
    click.option("-n", "--namespace", help="Namespace of an agent in a cluster."),
    click.option("--context", help="Kubeconfig context of the cluster."),
    click.option(
        "--client",
        help="Client of the agent whose token is used. By default `default`, or the first one in a fleet of `dev` "
        "whose agent has no client of this name.",
    ),
)
_CONVERSATION = (
    click.option("--resume", metavar="ID", help="Continue this conversation."),
    click.option("--continue", "newest", is_flag=True, help="Continue the newest conversation with the agent."),
    click.option("--image", "images", multiple=True, type=_FILE, help="Send a picture with the prompt."),
)
_HEADLESS = (
    click.option(
        "--output-format", type=click.Choice(["text", "json", "stream-json"]), default="text", show_default=True
    ),
    click.option("--task", metavar="ID", help="Answer this waiting task with the prompt."),
    click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds until the task is cancelled."),
    click.option(
        "--on-ask",
        type=click.Choice(["fail", "decline"]),
        default="fail",
        show_default=True,
        help="What to do with an undecided question: exit with 3, or decline it.",
    ),
    click.option(
        "--approve",
        metavar="none|edits|FILE",
        default="none",
        show_default=True,
        help="Approve edits of files, or what the rules of a file allow.",
    ),
    click.option("--max-cost", metavar="USD", help="Cancel the task at a question if its cost is above this limit."),
)


def with_options(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


@click.command("run")
@with_options(ADDRESS, _CONVERSATION, _HEADLESS)
@click.argument("words", nargs=-1, metavar="[AGENT] [PROMPT]")
def run_command(words: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Send one prompt to an agent, wait for the answer, and exit with its outcome.

    With --url, all words are the prompt. Otherwise the first word names the agent. Without a prompt, or with `-`,
    standard input is the prompt. With a prompt, piped standard input is data for it.
    """
    _check_conversation(options)
    agent, prompt = (None, words) if url is not None else (words[0] if words else None, words[1:])
    sys.exit(_headless(address_options(agent, url=url, **options), " ".join(prompt) or None, options))


@click.command("chat")
@with_options(ADDRESS, _CONVERSATION, _HEADLESS)
@click.option("-p", "--print", "prompt", metavar="PROMPT", help="Run this prompt without a terminal, as `run` does.")
@click.option("--plain", is_flag=True, help="Write whole blocks only, for screen readers.")
@click.option("--vi", "editing", flag_value="vi", help="Edit the input with the keys of vi.")
@click.option("--emacs", "editing", flag_value="emacs", default="emacs", help="Edit with the keys of emacs. (default)")
@click.option("--theme", type=click.Choice(["dark", "light", "mono"]), default="dark", show_default=True)
@click.argument("agent", required=False)
def chat_command(
    agent: str | None, url: str | None, prompt: str | None, plain: bool, editing: str, theme: str, **options: Any
) -> None:
    """Talk to an agent in the terminal.

    The agent is one of a running `fleetwright dev`, one of a cluster (-n, --context), or one at --url.
    """
    _check_conversation(options)
    address = address_options(agent, url=url, **options)
    if prompt is not None:
        sys.exit(_headless(address, prompt, options))
    from fleetwright_cli.terminal.view.command import ChatOptions, run_chat

    chat = ChatOptions(
        address=address,
        resume=options["resume"],
        newest=options["newest"],
        plain=plain,
        editing=editing,
        theme=theme,
    )
    sys.exit(run_chat(chat, os.environ))


def _check_conversation(options: dict[str, Any]) -> None:
    """Raises: click.UsageError: The options name two conversations."""
    given = {"--resume": options["resume"], "--continue": options["newest"], "--task": options["task"]}
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} exclude each other; give one of them")


def address_options(agent: str | None, *, is_administrator: bool = False, **options: Any) -> "AddressOptions":
    from fleetwright_cli.terminal.transport.addresses import AddressOptions

    names = ("url", "token_file", "state", "folder", "namespace", "context", "client")
    return AddressOptions(agent=agent, is_administrator=is_administrator, **{name: options[name] for name in names})


def _headless(address: "AddressOptions", prompt: str | None, options: dict[str, Any]) -> int:
    from fleetwright_cli.terminal.headless.command import RunOptions, run_headless
    from fleetwright_cli.terminal.headless.runner import OnAsk, RunSettings

    settings = RunSettings(
        on_ask=OnAsk(options["on_ask"]), timeout=options["timeout"], max_cost=_dollars(options["max_cost"])
    )
    run = RunOptions(
        address=address,
        prompt=prompt,
        output_format=options["output_format"],
        approve=options["approve"],
        resume=options["resume"],
        newest=options["newest"],
        task=options["task"],
        images=options["images"],
        settings=settings,
    )
    return run_headless(run, os.environ)


def _dollars(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise click.UsageError("--max-cost: must be an amount in US dollars, such as 0.50")
    return amount
