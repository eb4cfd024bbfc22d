"""`/undo` and `/fork` of the terminal with a real agent and its workspace."""

import io
from pathlib import Path

import pytest
from tests.support.cli.coder import ScriptedCoder, begin_checkout, coding_fleet, git

from fleetwright_cli.terminal.session.local_index import LocalIndex
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.dev_fleet import DevEndpoint, default_state
from fleetwright_cli.terminal.view.controller import ChatController
from fleetwright_cli.terminal.view.plain_chat import PlainChat

pytestmark = pytest.mark.process

READ = ("read_file", {"path": "shop.py"})
EDIT = ("edit_file", {"path": "shop.py", "old_text": "price + count", "new_text": "price * count"})


async def test_undo_restores_files_and_fork_keeps_the_history(tmp_path: Path) -> None:
    checkout, shown = tmp_path / "checkout", io.StringIO()
    begin_checkout(checkout)
    model = ScriptedCoder([READ, EDIT], "It is repaired.")
    with coding_fleet(tmp_path, checkout, model, edits="Auto") as environ:
        client = AgentClient(DevEndpoint(default_state(tmp_path / "fleet", environ), "coder"))
        screen = PlainChat(io.StringIO(), shown)
        controller = ChatController(client, screen, LocalIndex(tmp_path / "index.json"), folder=tmp_path)

        async def submit(text: str) -> None:
            await controller.submit(text)
            await controller.session.settled()

        await submit("Repair the shop.")
        assert git(checkout, "status", "--porcelain") == " M shop.py\n", shown.getvalue()
        await submit("/undo")
        assert git(checkout, "status", "--porcelain") == "", shown.getvalue()
        source = controller.state.context_id
        await submit("/fork 1")
        await submit("What did you do?")
        await controller.close()
    assert controller.state.context_id != source
    # The summary of earlier conversations, which the model sees too, is a message of its own.
    said = [each["content"] for each in model.messages if each["role"] in {"user", "assistant"}]
    assert ("Repair the shop." in said, "It is repaired." in said, "/undo" in said) == (True, True, False), said
