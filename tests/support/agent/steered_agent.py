"""An agent as a separate process, with a turn that the text of a message controls."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import uvloop

from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.process.serving import serve
from fleetwright_agent.protocol.frames import (
    Frame,
    InterruptKind,
    InterruptRequest,
    Text,
    TurnDone,
    TurnFailed,
    TurnRequest,
)
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.telemetry.logs import configure


class SteeredTurn:
    """A turn that the text controls: `wait <seconds>` sleeps, and `hang` never ends.

    `block <seconds>` blocks the event loop. `ask <question>` asks the question and `fail` fails.
    Any other text gets an answer.
    """

    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]:
        if request.text.startswith("ask "):
            question = request.text.removeprefix("ask ")
            yield InterruptRequest(InterruptKind.QUESTION, question, {"question": question}, identity=request.task_id)
            return
        if request.text == "fail":
            raise TurnFailed("told_to", "It failed as it was told to.")
        yield Text("Working on it. ")
        if request.text == "hang":
            await asyncio.Event().wait()
        if request.text.startswith("block "):
            time.sleep(float(request.text.removeprefix("block ")))  # noqa: ASYNC251 - what a tool should not do
        if request.text.startswith("wait "):
            await asyncio.sleep(float(request.text.removeprefix("wait ")))
        yield TurnDone(f"Done with {request.text}.")

    async def aclose(self) -> None:
        """No resources to release."""


async def _serve(root: Path, a2a: int, ops: int) -> None:
    layout = Layout(root=root)
    config = AgentConfig.model_validate_json(await asyncio.to_thread(layout.config_file.read_text))
    listeners = [socket.create_server(("127.0.0.1", port)) for port in (a2a, ops)]
    app = create_app(config, layout=layout, turn=SteeredTurn(), stalled_seconds=0.5, dead_seconds=3.5)
    await serve(app, a2a=listeners[0], ops=listeners[1])


def main(arguments: Sequence[str]) -> int:
    """Serve the agent whose files are below the first argument, on the two ports that follow."""
    root, *ports = arguments
    configure("info")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(root), *map(int, ports)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
