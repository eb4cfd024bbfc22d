"""The dice agent in a program of your own: `python embedded.py ROOT PORT OPS_PORT`.

ROOT is the folder with the files of the runtime contract: `etc/fleetwright/agent.json`, the card and the tokens.
"""

import asyncio
import socket
import sys
from pathlib import Path

from dice import Dice

from fleetwright_agent.app import create_app
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import load
from fleetwright_agent.process.serving import serve

root, port, ops_port = sys.argv[1:]
layout = Layout(root=Path(root))
app = create_app(load(layout), layout=layout, executor=Dice())
doors = {
    "a2a": socket.create_server(("127.0.0.1", int(port))),
    "ops": socket.create_server(("127.0.0.1", int(ops_port))),
}
# Serve until a signal. Running tasks then get time to finish.
asyncio.run(serve(app, **doors))
