"""`fleetwright chat`: shows the prompt at once, and connects meanwhile."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetwright_cli.safe_text import one_line
from fleetwright_cli.terminal.view.rendering import Renderer
from fleetwright_cli.terminal.view.theme import theme_of

if TYPE_CHECKING:
    from fleetwright_cli.terminal.transport.addresses import AddressOptions
    from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint
    from fleetwright_cli.terminal.view.chat_screen import ChatScreen
    from fleetwright_cli.terminal.view.controller import ChatController

_USAGE = 2
_UNREACHABLE = 4
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    address: "AddressOptions"
    resume: str | None = None
    newest: bool = False
    plain: bool = False
    editing: str = "emacs"
    theme: str = "dark"


def run_chat(options: ChatOptions, environ: Mapping[str, str]) -> int:
    """Run the chat, and return the exit code."""
    from fleetwright_cli.terminal.transport.addresses import AgentNotSpecified, endpoint_of
    from fleetwright_cli.terminal.transport.errors import TransportError

    try:
        endpoint = endpoint_of(options.address, environ, Path.cwd())
    except (AgentNotSpecified, OSError) as error:
        print(f"fleetwright chat: {error}", file=sys.stderr)
        return _USAGE
    except TransportError as error:
        print(f"fleetwright chat: {error}", file=sys.stderr)
        return _UNREACHABLE
    if options.plain or is_dumb(environ) or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return asyncio.run(_plain(options, endpoint, environ))
    return asyncio.run(_inline(options, endpoint, environ))


def is_dumb(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "dumb") in {"", "dumb"}


def colours_of(environ: Mapping[str, str]) -> str | None:
    """Return the colour system of rich for a terminal. Themes use sixteen colours only."""
    return None if environ.get("NO_COLOR") else "standard"


async def _inline(options: ChatOptions, endpoint: "AgentEndpoint", environ: Mapping[str, str]) -> int:
    from prompt_toolkit.input import create_input

    from fleetwright_cli.terminal.view.inline_chat import InlineChat
    from fleetwright_cli.terminal.view.input_line import InputCompleter, input_history
    from fleetwright_cli.terminal.view.terminal_output import frame_output
    from fleetwright_cli.terminal.view.transcript import Transcript

    renderer = Renderer(theme_of(options.theme, environ), colours=colours_of(environ))
    screen = InlineChat(
        endpoint.title,
        Transcript(renderer),
        output=frame_output(sys.stdout, term=environ.get("TERM")),
        input=create_input(),
        history=input_history(environ),
        completer=InputCompleter(Path.cwd()),
        vi=options.editing == "vi",
        colours=not environ.get("NO_COLOR"),
    )
    controller: ChatController | None = None

    async def connect() -> None:
        nonlocal controller
        # The prompt is painted first. Importing the HTTP client takes a quarter of a second.
        await asyncio.sleep(0)
        await asyncio.to_thread(_import_client)
        controller = await _controller(options, endpoint, environ, screen)
        if controller is not None:
            screen.connected(controller)

    connecting = asyncio.create_task(connect())
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The terminal must leave its raw mode.
        asyncio.get_running_loop().add_signal_handler(number, screen.leave)
    try:
        await screen.run()
    finally:
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        if controller is not None:
            state = controller.state
            await controller.close()
            if state.turns or state.tasks:
                print(f"to continue: --resume {one_line(state.context_id, _LONGEST_ID)}")
    return 0


def _import_client() -> None:
    """Import what the first message needs, in a thread beside the event loop."""

    import fleetwright_cli.terminal.view.controller  # noqa: F401 - imported for its side effect


async def _controller(
    options: ChatOptions, endpoint: "AgentEndpoint", environ: Mapping[str, str], screen: "ChatScreen"
) -> "ChatController | None":
    """Connect, and return the controller, or None if the agent is not reachable."""
    from fleetwright_cli.terminal.session.local_index import LocalIndex, index_file
    from fleetwright_cli.terminal.transport.agent_client import AgentClient
    from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
    from fleetwright_cli.terminal.transport.errors import TransportError
    from fleetwright_cli.terminal.view.controller import ChatController

    client = AgentClient(endpoint)
    try:
        if isinstance(endpoint, ClusterEndpoint):
            await endpoint.prepare()
        await client.card()
        controller = ChatController(client, screen, LocalIndex(index_file(environ)), folder=Path.cwd())
        context_id = options.resume or (await controller.newest() if options.newest else "")
        if context_id:
            await controller.resume(context_id)
    except TransportError as error:
        screen.note(f"{error}. Leave with Ctrl-D, and start again.", bad=True)
        await client.close()
        return None
    return controller


async def _plain(options: ChatOptions, endpoint: "AgentEndpoint", environ: Mapping[str, str]) -> int:
    from fleetwright_cli.terminal.view.plain_chat import PlainChat

    screen = PlainChat(sys.stdin, sys.stdout)
    controller = await _controller(options, endpoint, environ, screen)
    if controller is None:
        return _UNREACHABLE
    try:
        await screen.run(controller)
    finally:
        await controller.close()
    return 0
