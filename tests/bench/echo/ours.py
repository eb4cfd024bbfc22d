"""The runtime's server with the benchmark's executor in place of the model loop; everything else is as in a pod.

python -m tests.bench.echo.ours ROOT PORT OPS-PORT memory|disk
"""

import asyncio
import os
import socket
import sys
from pathlib import Path

os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import uvloop

from fleetwright_agent.app import create_app
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import load
from fleetwright_agent.process.serving import serve
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.telemetry.logs import configure

sys.path.insert(0, str(Path(__file__).parent))
from steered import Steered


async def main(root: Path, port: int, ops: int, where: str) -> None:
    layout = Layout(root=root)
    log = MemoryTaskLog() if where == "memory" else None
    app = create_app(load(layout), layout=layout, executor=Steered(), log=log)
    doors = [socket.create_server(("127.0.0.1", number), backlog=2048) for number in (port, ops)]
    await serve(app, a2a=doors[0], ops=doors[1])


if __name__ == "__main__":
    configure("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
