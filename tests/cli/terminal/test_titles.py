"""The title of a conversation, as the agent keeps it for the chats of its user."""

import io

from tests.support.cli.fleet import Fleet

from fleetwright_cli.terminal.session.local_index import LocalIndex
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.dev_fleet import DevEndpoint
from fleetwright_cli.terminal.view.controller import ChatController
from fleetwright_cli.terminal.view.plain_chat import PlainChat


async def test_title_is_shown_on_another_machine(fleet: Fleet, tmp_path):
    shown = io.StringIO()
    for machine, texts in (("one", ["Look up order A-1002.", "/rename Shop review"]), ("two", ["/sessions"])):
        client = AgentClient(DevEndpoint(fleet.state, "desk"))
        index = LocalIndex(tmp_path / machine / "index.json")
        controller = ChatController(client, PlainChat(io.StringIO(), shown), index, folder=tmp_path)
        for text in texts:
            await controller.submit(text)
            await controller.session.settled()
        await controller.close()
    assert "Renamed.\n" in shown.getvalue()
    rows = [line for line in shown.getvalue().splitlines() if "Shop review" in line]
    assert len(rows) == 1, shown.getvalue()
    assert "Look up order" not in rows[0]
