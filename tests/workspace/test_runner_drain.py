"""The end of the runner waits for calls that change files."""

import threading
from pathlib import Path

from tests.support.machine import ceiling

from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.search import FileSearch
from fleetwright_workspace.files.undo_store import UndoStore
from fleetwright_workspace.runner.calls import FileCalls
from fleetwright_workspace.runner.command_ids import CommandIds
from fleetwright_workspace.runner.execution import Execution
from fleetwright_workspace.runner.fields import Fields
from fleetwright_workspace.runner.server import RunnerServer
from fleetwright_workspace.runner.tokens import AcceptedTokens


def test_drain_waits_for_a_call(tmp_path: Path) -> None:
    root = WorkspaceRoot(str(tmp_path))
    calls = FileCalls(root, UndoStore(str(tmp_path / "undo")), FileSearch(root, ripgrep=None))
    execution = Execution(root, str(tmp_path / "socket"), CommandIds(str(tmp_path / "ids")))
    server = RunnerServer(calls, execution, AcceptedTokens(str(tmp_path / "tokens")))
    began, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(fields: Fields) -> dict[str, object]:
        began.set()
        assert may_end.wait(ceiling())
        order.append("call")
        return {}

    call = threading.Thread(target=lambda: server._call(slow, b"{}"))
    call.start()
    assert began.wait(ceiling())

    def drain() -> None:
        server.drain(ceiling())
        order.append("drained")

    waiting = threading.Thread(target=drain)
    waiting.start()
    may_end.set()
    call.join(ceiling())
    waiting.join(ceiling())
    assert order == ["call", "drained"]
    server.drain(0)
