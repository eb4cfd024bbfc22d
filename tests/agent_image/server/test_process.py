"""The agent as a process: kills, graceful stops and invalid starts."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.cluster.ports import free_ports, has_ipv6_loopback
from tests.support.agent.agent_process import AgentProcess, serve_arguments
from tests.support.agent.fork_server import ForkServer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until, within

from fleetwright_agent.__main__ import write_termination_message

pytestmark = pytest.mark.starts_first

EXAMPLE = Path(__file__).parents[3] / "examples/foreign-executor"
LONGER_THAN_ANY_CEILING = 24 * 3600
Start = Callable[..., Any]


def _count_tasks_with_text(mounted: Any, text: str) -> int:
    """Return how many tasks have committed an event with this text."""
    query = "SELECT count(DISTINCT n) FROM events WHERE instr(payload, ?)"
    with closing(sqlite3.connect(f"file:{mounted.layout.memory / 'tasks.db'}?mode=ro", uri=True)) as db:
        return int(db.execute(query, (text.encode(),)).fetchone()[0])


async def test_r2_kill_loses_nothing_and_runs_nothing_twice(start: Start, mounted: Any) -> None:
    async with start() as agent:
        done = await agent.say("hello", "finished")
        running = [await agent.say("hang", f"hanging {n}", now=True, contextId=f"c{n}") for n in range(10)]
        await await_until(lambda: _count_tasks_with_text(mounted, "Working on it. ") == 4, "four tasks have text")
        agent.process.send_signal(signal.SIGKILL)
        await agent.process.wait()
    async with start() as agent:
        assert (await agent.call("GetTask", {"id": done["id"]}))["result"] == done
        for n, task in enumerate(running):
            ended = (await agent.call("GetTask", {"id": task["id"]}))["result"]
            assert ended["status"]["state"] == "TASK_STATE_FAILED"
            assert "restarted while this task was running" in ended["status"]["message"]["parts"][0]["text"]
            parts = [part for artifact in ended.get("artifacts", ()) for part in artifact["parts"]]
            assert parts == ([{"text": "Working on it. "}] if n < 4 else []), "the others waited for their turn"
            again = await agent.say("hang", f"hanging {n}", contextId=f"c{n}")
            assert again == ended
        assert (await agent.call("CancelTask", {"id": running[0]["id"]}))["error"]["code"] == -32002
        assert (await agent.call("SubscribeToTask", {"id": running[0]["id"]}))["error"]["code"] == -32004
        assert (await agent.say("hello again", "new", contextId="c1"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_r3_read_only_log_is_reported_and_refuses_tasks(start: Start, mounted: Any) -> None:
    file = mounted.layout.memory / "tasks.db"
    async with start() as agent:
        done = await agent.say("hello", "finished")
    file.chmod(0o444)
    # File modes do not restrict root, so drop the capabilities that bypass them.
    plain = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    async with start(prefix=plain, ready=False) as agent:
        assert "the task log tasks.db cannot be opened: attempt to write a readonly database" in await agent.reason()
        refused = await agent.a2a.post("/a2a", json=_send("late"))
        assert (refused.status_code, "tasks.db" in refused.text) == (503, False)
        file.chmod(0o644)
        await agent.ready()
        assert (await agent.call("GetTask", {"id": done["id"]}))["result"] == done


def _send(identifier: str) -> dict[str, Any]:
    message = {"messageId": identifier, "role": "ROLE_USER", "parts": [{"text": "x"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


async def test_shutdown_drains_short_work_and_ends_long_work(start: Start, mounted: Any) -> None:
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"drainSeconds": 8})
    async with start() as agent:
        streams: dict[str, list[dict[str, Any]]] = {"wait 0.4": [], "hang": []}
        begun = asyncio.Event()

        async def read(text: str) -> None:
            async for event in agent.events(text):
                streams[text].append(event)
                if all(streams.values()):
                    begun.set()

        readers = [asyncio.ensure_future(read(text)) for text in streams]
        await begun.wait()
        agent.process.terminate()
        assert await agent.reason() == "the agent is shutting down\n"
        assert (await agent.ops.get("/healthz")).status_code == 200
        refused = await agent.a2a.post("/a2a", json=_send("late"))
        assert (refused.status_code, refused.headers["fleetwright-not-accepted"]) == (503, "true")
        async with within("the streams and the process end"):
            await asyncio.gather(*readers)
            assert await agent.process.wait() == 0
    ends = {text: events[-1]["statusUpdate"]["status"] for text, events in streams.items()}
    assert ends["wait 0.4"]["state"] == "TASK_STATE_COMPLETED"
    assert ends["hang"]["state"] == "TASK_STATE_FAILED"
    assert "shut down before this task was done" in ends["hang"]["message"]["parts"][0]["text"]


async def test_r14_shutdown_sends_the_end_to_fifty_readers(start: Start) -> None:
    async with start() as agent:
        begun = 0
        last: dict[int, dict[str, Any]] = {}

        async def read(number: int) -> None:
            nonlocal begun
            async for event in agent.events("hang", f"reader {number}"):
                begun += number not in last
                last[number] = event

        readers = [asyncio.ensure_future(read(number)) for number in range(50)]
        await await_until(lambda: begun >= 50, "fifty streams begin")
        agent.process.terminate()
        async with within("the streams and the process end"):
            await asyncio.gather(*readers)
            assert await agent.process.wait() == 0
    states = {event["statusUpdate"]["status"]["state"] for event in last.values()}
    assert states == {"TASK_STATE_FAILED"}


async def test_idle_keepalive_connection_is_reused(start: Start) -> None:
    """The default keep-alive of five seconds would close the connection while a client sends its next request."""
    async with start() as agent:
        url = agent.a2a.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        for pause in (6.0, 0.0):
            writer.write(b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            (length,) = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
            await reader.readexactly(int(length[15:]))
            await asyncio.sleep(pause)
        writer.close()


async def test_second_sigterm_stops_at_once_and_fails_the_task(start: Start, mounted: Any) -> None:
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"drainSeconds": LONGER_THAN_ANY_CEILING})
    async with start() as agent:
        task = await agent.say("hang", "hanging", now=True)
        agent.process.terminate()
        assert await agent.reason() == "the agent is shutting down\n"
        agent.process.terminate()
        async with within("the process ends"):
            assert await agent.process.wait() == 0
    async with start() as agent:
        ended = (await agent.call("GetTask", {"id": task["id"]}))["result"]
        assert ended["status"]["state"] == "TASK_STATE_FAILED"


def _set_executor(mounted: Any, executor: str) -> None:
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"executor": executor})


def _only_reachable(url: str, mounted: Any) -> None:
    config = json.loads(mounted.layout.config_file.read_text())
    card = json.loads(mounted.layout.card_file.read_text())
    card["supportedInterfaces"][0]["url"] = url
    mounted.write(mounted.layout.card_file, card)
    mounted.write(mounted.layout.config_file, config | {"requireRoutableUrl": True})


@pytest.mark.parametrize(
    ("break_it", "line"),
    [
        pytest.param(lambda m: m.layout.config_file.unlink(), "agent.json cannot be read", id="no configuration"),
        pytest.param(
            lambda m: m.layout.config_file.write_text("{"), "agent.json is not valid: the document", id="no JSON"
        ),
        pytest.param(
            lambda m: m.write(m.layout.config_file, json.loads(m.layout.config_file.read_text()) | {"nme": 1}),
            "agent.json is not valid: nme: Extra inputs are not permitted",
            id="a field nobody knows",
        ),
        pytest.param(
            lambda m: (m.layout.memory.rmdir(), m.layout.memory.write_text("")),
            "the memory folder",
            id="memory that cannot be written",
        ),
        *(
            pytest.param(partial(_only_reachable, url), f"the card names {url}, which others cannot reach", id=words)
            for url, words in (
                ("http://127.0.0.1:7870/a2a", "a card of loopback"),
                ("http://localhost./a2a", "a card of this machine's name"),
                ("http://[::]:7870/a2a", "a card of no address"),
            )
        ),
    ],
)
def test_serve_reports_invalid_mounts_in_one_line_with_code_2(
    fork_server: ForkServer, mounted: Any, break_it: Callable[[Any], object], line: str
) -> None:
    break_it(mounted)
    ended = fork_server.run(
        "serve", "--root", str(mounted.layout.root), "--host", "127.0.0.1", "--port", "0", "--ops-port", "0"
    )
    assert ended.returncode == 2
    assert line in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_serve_reports_a_port_in_use_with_exit_code_2(fork_server: ForkServer, mounted: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = fork_server.run("serve", "--root", str(mounted.layout.root), "--host", "127.0.0.1", "--port", port)
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in ended.stderr


@pytest.mark.process
@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
async def test_serve_listens_on_both_ip_families_on_both_ports(mounted: Any, address: str) -> None:
    """A pod of an IPv6-only cluster has only this address family."""
    if address == "[::1]" and not has_ipv6_loopback():
        pytest.skip("this machine has no IPv6")
    ports = free_ports()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fleetwright_agent", "serve", "--root", str(mounted.layout.root)),
        *("--port", str(ports[0]), "--ops-port", str(ports[1])),
        stdout=subprocess.DEVNULL,
    )
    try:
        async with (
            httpx.AsyncClient(verify=NO_TLS, base_url=f"http://{address}:{ports[0]}", timeout=ceiling()) as a2a,
            httpx.AsyncClient(verify=NO_TLS, base_url=f"http://{address}:{ports[1]}", timeout=ceiling()) as ops,
        ):
            await AgentProcess(process, a2a, ops).ready()
            assert (await a2a.get("/.well-known/agent-card.json")).status_code == 200
    finally:
        process.terminate()
        await process.wait()


def test_last_words_are_written_to_the_termination_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_termination_message("it broke\nbadly", termination_log=tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []
    log = tmp_path / "termination-log"
    log.touch()
    write_termination_message("it broke\nbadly", termination_log=log)
    assert log.read_text() == "it broke badly\n"
    assert capsys.readouterr().err == "fleetwright-agent: it broke badly\n" * 2
    write_termination_message("proxy http://bob:s3cret@host is none", termination_log=log)
    assert "s3cret" not in log.read_text() + capsys.readouterr().err


@pytest.mark.process
async def test_ready_agent_has_not_imported_the_agent_loop(mounted: Any) -> None:
    """Start the real command, and check its mapped files and imported modules once it is ready."""
    ports = free_ports()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "fleetwright_agent"),
        *serve_arguments(mounted.layout.root, ports),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    async with httpx.AsyncClient(verify=NO_TLS, base_url=f"http://127.0.0.1:{ports[1]}", timeout=ceiling()) as ops:
        agent = AgentProcess(process, ops, ops)
        reading = asyncio.ensure_future(process.communicate())
        await agent.ready()
        process.terminate()
        _, imports = await reading
    assert process.returncode == 0
    modules = {line.rsplit("|", 1)[-1].strip() for line in imports.decode().splitlines()}
    loaded = {name.partition(".")[0] for name in modules}
    assert "starlette" in loaded
    assert loaded.isdisjoint({"langgraph", "langchain", "langchain_core", "openai", "mcp", "fastapi"})
    assert modules.isdisjoint(
        {"a2a.client", "a2a.server.request_handlers", "a2a.server.routes", "a2a.compat.v0_3.types"}
    )


@pytest.mark.process
async def test_woken_agent_imports_its_turn_before_it_is_ready(mounted: Any) -> None:
    """The memory of this agent cannot be opened, so the agent never becomes ready."""
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"preload": True})
    (mounted.layout.memory / "tasks.db").mkdir()
    ports = free_ports()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "fleetwright_agent"),
        *serve_arguments(mounted.layout.root, ports),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with within("the process imports the agent loop"):
            while not (line := await process.stderr.readline()).endswith(b" langchain.agents\n"):
                assert line, "the process has exited"
        async with httpx.AsyncClient(verify=NO_TLS, base_url=f"http://127.0.0.1:{ports[1]}", timeout=ceiling()) as ops:
            assert (await ops.get("/readyz")).status_code == 503
    finally:
        process.kill()
        await process.communicate()


@dataclass
class Idle:
    """An idle connection of a proxy: if the server closes it during the next request, the request is lost."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since: float

    @classmethod
    async def on(cls, agent: AgentProcess) -> "Idle":
        idle = cls(*await asyncio.open_connection("127.0.0.1", agent.a2a.base_url.port), since=time.monotonic())
        await idle._asked()
        return idle

    async def serves_again(self) -> None:
        """Send a request after more than five seconds, the default keep-alive timeout of uvicorn."""
        await asyncio.sleep(max(0.0, self.since + 6 - time.monotonic()))
        await self._asked()
        self.writer.close()

    async def _asked(self) -> None:
        self.writer.write(b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await self.reader.readline()
        await self.reader.readuntil(b"}]}")


async def test_r15_blocked_event_loop_fails_readiness_before_liveness(start: Start) -> None:
    """Readiness fails as soon as the loop is blocked; liveness fails only after a longer time."""
    async with start() as agent:
        idle = await Idle.on(agent)
        seen = {path: [(await agent.ops.get(path)).status_code] for path in ("/healthz", "/readyz")}
        stalls = await _stalls(agent)
        asked = asyncio.create_task(agent.say("block 8", "m-1"))
        said, stalled = "", {}
        while not asked.done():
            status = (await agent.ops.get("/status")).json()
            stalled = {key: status[key] for key in ("ready", "eventLoop")} if "eventLoop" in status else stalled
            for path, statuses in seen.items():
                answer = await agent.ops.get(path)
                statuses.append(answer.status_code)
                said = answer.text if answer.status_code == 503 else said
            await asyncio.sleep(0.05)
        assert (await asked)["status"]["state"] == "TASK_STATE_COMPLETED"
        for statuses in seen.values():
            assert statuses[0] == 200
            assert 503 in statuses
        assert seen["/healthz"].count(503) < seen["/readyz"].count(503)
        assert "the event loop of the agent has been blocked" in said
        assert stalled["ready"] is False
        assert stalled["eventLoop"]["stalledSeconds"] >= 1
        await agent.ready()
        assert (await agent.ops.get("/healthz")).status_code == 200
        assert "eventLoop" not in (await agent.ops.get("/status")).json()
        # A busy machine may stop the process for half a second, which counts too.
        assert 1 <= await _stalls(agent) - stalls <= 3
        await idle.serves_again()


async def _stalls(agent: AgentProcess) -> float:
    lines = (await agent.ops.get("/metrics")).text.splitlines()
    return float(next(line for line in lines if line.startswith("fleetwright_loop_stalls_total ")).split()[1])


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"executor": "dice:Dice"}, id="by the image's command"),
        pytest.param({"program": EXAMPLE / "embedded.py"}, id="by a program of its own"),
    ],
)
async def test_example_sdk_executor_is_served(start: Start, how: dict[str, Any]) -> None:
    async with start(**how) as agent:
        asked = await agent.say("Roll, please.", "m-1")
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        done = await agent.say("3d1", "m-2", taskId=asked["id"])
        assert done["artifacts"][0]["parts"] == [{"text": "3d1: 1 + 1 + 1 = 3"}]


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(("serve", "--port", "0", "--ops-port", "0"), id="when it is to serve"),
        pytest.param(("probe", "agent"), id="when it is tried before it serves"),
    ],
)
@pytest.mark.parametrize(
    ("executor", "says"),
    [
        pytest.param("dice:Cards", "AttributeError", id="a name that is not in the module"),
        pytest.param("dice.Dice", "executor: String should match pattern", id="no name of that shape"),
        pytest.param("cards:Cards", "No module named 'cards'", id="a module that is not there"),
        pytest.param("collections:OrderedDict", "is not an AgentExecutor", id="something else"),
    ],
)
def test_unloadable_executor_is_named(
    fork_server: ForkServer, mounted: Any, executor: str, says: str, look: tuple[str, ...]
) -> None:
    _set_executor(mounted, executor)
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE)}
    ended = fork_server.run(*look, "--root", str(mounted.layout.root), environment=environment)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
