"""The tools with the real runner and executor, as processes: the wire format, lost connections and hostile paths."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import await_until
from tests.support.workspace import TOKEN, LocalWorkspace

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.workspace import Workspace
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.tools.port import Allow, Ask, Tool, ToolCall, ToolError, ToolResult
from fleetwright_agent.tools.workspace.http_runner import HttpWorkspaceRunner, runner_client
from fleetwright_agent.tools.workspace.provider import WorkspaceTools
from fleetwright_agent.tools.workspace.runner import RunnerUnavailable
from fleetwright_agent.tools.workspace.undo import WorkspaceUndo
from fleetwright_agent.tools.workspace.web.page_fetcher import PageFetcher, web_transport
from fleetwright_agent.turn.context import TurnContext

pytestmark = pytest.mark.process
TURN = TurnRequest("client:web", "c", "t", "x")


@pytest.fixture(scope="module")
def running(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorkspace]:
    workspace = LocalWorkspace(tmp_path_factory.mktemp("workspace"))
    yield workspace
    workspace.stop()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    built = Layout(root=tmp_path / "agent")
    built.workspace_token_file.parent.mkdir(parents=True)
    built.workspace_token_file.write_text(f"{TOKEN}\n")
    return built


Connect = Callable[..., HttpWorkspaceRunner]


@pytest.fixture
async def connect(running: LocalWorkspace, layout: Layout) -> AsyncIterator[Connect]:
    opened: list[HttpWorkspaceRunner] = []

    def build(url: str = "") -> HttpWorkspaceRunner:
        url = url or str(running.http.base_url)
        opened.append(HttpWorkspaceRunner(url, layout, runner_client(url)))
        return opened[-1]

    yield build
    for runner in opened:
        await runner.close()


@pytest.fixture
async def tools(connect: Connect, storage: Storage) -> dict[str, Tool]:
    config = Workspace.model_validate({"url": "http://w:1", "shell": {"timeoutSeconds": 2, "allow": ["sh -c"]}})
    provider = WorkspaceTools(config, connect(), storage.workspace, PageFetcher((), web_transport(())))
    return {tool.name: tool for tool in await provider.tools(TurnContext(TURN, lambda _: None, {}))}


def call(key: str, write: Callable[[str], None] = lambda _: None, **arguments: Any) -> ToolCall:
    return ToolCall(arguments, TURN, lambda _: None, None, key, "id", write, approved="Run?")


async def run_approved(tool: Tool, wanted: ToolCall) -> Any:
    """Run a call with the approval for which the tool asks."""
    asked = await tool.decide(wanted)
    approved, state = (asked.question, asked.state) if isinstance(asked, Ask) else (None, "")
    return await tool.run(replace(wanted, approved=approved, approved_state=state))


async def text(result: Any) -> str:
    found = await result
    return found.text if isinstance(found, ToolResult) else found


async def test_edit_of_a_real_file(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    file = running.root / "edited.py"
    file.write_text("one\r\ntwo\r\n")
    assert await text(tools["read_file"].run(call("1", path="edited.py"))) == "one\ntwo\n"
    edit = call("2", path=str(file), old_text="two", new_text="2")
    asked = await tools["edit_file"].decide(edit)
    assert isinstance(asked, Ask)
    assert "-two" in asked.preview
    assert "+2" in await text(run_approved(tools["edit_file"], edit))
    assert file.read_bytes() == b"one\r\n2\r\n"
    assert "already" in await text(run_approved(tools["edit_file"], edit))
    file.write_text("else\n")
    with pytest.raises(ToolError, match="has changed since"):
        await run_approved(tools["write_file"], call("3", path="edited.py", content="x"))


async def test_new_file_and_its_search(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    await run_approved(tools["write_file"], call("10", path="new/folder/n.py", content="needle\n"))
    assert (running.root / "new/folder/n.py").read_text() == "needle\n"
    found = await text(tools["search_files"].run(call("11", pattern="needle", include="*.py")))
    assert found == "new/folder/n.py:1: needle"
    assert "n.py (7 bytes)" in await text(tools["list_directory"].run(call("12", path="new/folder")))
    with pytest.raises(ToolError, match=r"similar names: new/folder/n\.py"):
        await tools["read_file"].run(call("13", path="new/m.py"))


async def test_links_that_leave_the_workspace_are_refused(
    tools: dict[str, Tool], running: LocalWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (running.root / "link").symlink_to(tmp_path)
    for tool, arguments in (("read_file", {}), ("write_file", {"content": "x"})):
        with pytest.raises(ToolError, match="outside the workspace"):
            await tools[tool].run(call(tool, path="link/secret", **arguments))
    assert isinstance(await tools["bash"].decide(call("20", command="cat link/secret")), Ask)
    assert isinstance(await tools["bash"].decide(call("21", command="ls .")), Allow)


async def test_undo_leaves_a_task_of_another_owner_alone(
    tools: dict[str, Tool], connect: Connect, running: LocalWorkspace
) -> None:
    for owner in ("client:web", "client:other"):
        wanted = call(owner, path=f"{owner}.txt", content="x\n")
        await run_approved(tools["write_file"], replace(wanted, turn=replace(TURN, owner=owner, task_id="same")))
    undone = await WorkspaceUndo(connect()).undo("client:web", "undo", ["same"])
    assert undone.restored == ("client:web.txt",)
    assert [path.name for path in running.root.glob("client:*.txt")] == ["client:other.txt"]


class LosingRunner(HttpWorkspaceRunner):
    """Loses its first answer."""

    lost = False

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await super().call(name, arguments)
        if self.lost:
            return answer
        self.lost = True
        raise ToolError("the connection broke")


async def test_undo_whose_answer_is_lost_is_reported(
    tools: dict[str, Tool], running: LocalWorkspace, layout: Layout
) -> None:
    wanted = call("lost", path="lost.txt", content="x\n")
    await run_approved(tools["write_file"], replace(wanted, turn=replace(TURN, task_id="lost")))
    url = str(running.http.base_url)
    runner = LosingRunner(url, layout, runner_client(url))
    try:
        undo = WorkspaceUndo(runner)
        first, repeated = await undo.undo(TURN.owner, "u", ["lost"]), await undo.undo(TURN.owner, "u", ["lost"])
        other = await undo.undo(TURN.owner, "u2", ["lost"])
    finally:
        await runner.close()
    assert (first.restored, repeated.restored, other.restored) == (("lost.txt",), ("lost.txt",), ())


async def test_git_folder_cannot_be_written(tools: dict[str, Tool]) -> None:
    with pytest.raises(ToolError, match=r"\.git"):
        await run_approved(tools["write_file"], call("25", path=".git/config", content="x"))


async def test_output_arrives_while_the_command_runs(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    pieces: list[str] = []

    def write(piece: str) -> None:
        pieces.append(piece)
        (running.root / "heard").touch()

    command = "sh -c 'echo first; while [ ! -e heard ]; do sleep 0.01; done; echo second; exit 3'"
    result = await text(tools["bash"].run(call("30", write, command=command)))
    assert result == "[The command ended with exit code 3.]\nfirst\nsecond"
    assert "".join(pieces) == "first\nsecond\n"


async def test_command_is_ended_after_its_time(tools: dict[str, Tool]) -> None:
    with pytest.raises(ToolError, match=r"time limit\. Its output so far:\nfirst"):
        await tools["bash"].run(call("31", command="echo first; sleep 60"))


async def test_command_of_one_call_runs_once(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    await tools["bash"].run(call("32", command="echo x >> once"))
    with pytest.raises(ToolError, match="started before"):
        await tools["bash"].run(call("32", command="echo x >> once"))
    assert (running.root / "once").read_text() == "x\n"


async def test_cancelled_call_ends_its_command(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    began = asyncio.Event()
    command = "trap 'touch ended; exit' TERM; echo began; while true; do sleep 0.05; done"
    task = asyncio.create_task(tools["bash"].run(call("33", lambda _: began.set(), command=command)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await await_until((running.root / "ended").exists, "the command sees SIGTERM")


async def test_git_status_checks_for_filters(tools: dict[str, Tool], running: LocalWorkspace) -> None:
    assert isinstance(await tools["bash"].decide(call("40", command="git status")), Allow)
    running.run("git init -q repository && git -C repository config filter.evil.clean ./evil")
    asked = await tools["bash"].decide(call("41", command="git -C repository status"))
    assert isinstance(asked, Ask)
    assert "filters" in asked.question


@pytest.mark.parametrize(
    ("token", "words"), [("wrong", "does not accept this agent's credential"), ("", "holds no credential")]
)
async def test_wrong_token_is_an_error(connect: Connect, layout: Layout, token: str, words: str) -> None:
    layout.workspace_token_file.write_text(token)
    with pytest.raises(RunnerUnavailable, match=words):
        await connect().call("tree", {})


async def test_missing_token_is_an_error(connect: Connect, layout: Layout) -> None:
    layout.workspace_token_file.unlink()
    with pytest.raises(RunnerUnavailable, match="holds no credential"):
        await connect().call("tree", {})


async def test_runner_that_does_not_listen_is_unavailable(connect: Connect) -> None:
    with pytest.raises(RunnerUnavailable, match="cannot be reached"):
        await connect("http://127.0.0.1:1").call("tree", {})


def descendants(pid: int) -> list[int]:
    """Return the processes below a process."""
    children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [each for child in children for each in (child, *descendants(child))]


async def test_lost_executor_leaves_the_outcome_unknown(
    process_ring: None, tmp_path: Path, layout: Layout, storage: Storage
) -> None:
    (tmp_path / "own").mkdir()
    own = LocalWorkspace(tmp_path / "own")
    url = str(own.http.base_url)
    runner = HttpWorkspaceRunner(url, layout, runner_client(url))
    provider = WorkspaceTools(
        Workspace.model_validate({"url": url, "tools": ["bash"]}),
        runner,
        storage.workspace,
        PageFetcher((), web_transport(())),
    )
    try:
        (bash,) = await provider.tools(TurnContext(TURN, lambda _: None, {}))
        began = asyncio.Event()
        task = asyncio.create_task(bash.run(call("1", lambda _: began.set(), command="echo began; sleep 60")))
        await began.wait()
        for pid in [own.executor.pid, *descendants(own.executor.pid)]:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(ToolError, match=r"unknown whether the command had its effects.*\nbegan"):
            await task
        with pytest.raises(RunnerUnavailable, match="executor does not answer"):
            await bash.run(call("2", command="ls"))
    finally:
        await provider.close()
        own.stop()


async def test_closing_the_events_ends_the_stream(connect: Connect) -> None:
    began = time.monotonic()
    wanted = {"id": "closing", "command": "echo x; sleep 60", "timeout_seconds": 60}
    async with aclosing(connect().execute(wanted)) as events:
        async for event in events:
            assert event["text"] == "x\n"
            break
    assert time.monotonic() - began < 60
