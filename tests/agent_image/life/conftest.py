"""Complete agents with the offline model and tools with countable effects, in this process and in a child process."""

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import httpx
import pytest
from e2e.cluster.ports import free_ports
from mcp.server.fastmcp import FastMCP
from tests.support.agent.agent_process import end_process, serve_arguments
from tests.support.agent.background_tasks import BackgroundModel, LostAnswer, build_gateway
from tests.support.agent.fork_server import ForkedProcess, ForkServer
from tests.support.agent.scripted_model import ScriptedModel
from tests.support.http_server import serve_app, serve_in_thread
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until, within
from tests.support.workspace import TOKEN, LocalWorkspace

from fleetwright_a2a.extensions import TOOL_CALL
from fleetwright_agent.app import create_app
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_cli.offline.model import OfflineModel

TOKENS = {
    "client:default": "token-of-default",
    "client:other": "token-of-other",
    "agent:team/peer": "token-of-peer",
    "agent:team/echo": "self",
}


@dataclass
class House:
    """A restaurant whose ledger records every effect of a tool."""

    ledger: list[str] = field(default_factory=list)
    kitchen: Event = field(default_factory=Event)
    """An event that ends the cooking."""

    def server(self) -> FastMCP:
        server = FastMCP("house", host="127.0.0.1", port=1, stateless_http=True, json_response=True)

        @server.tool()
        def book_table(guests: int) -> str:
            """Book a table in the restaurant."""
            self.ledger.append(f"table for {guests}")
            return f"A table for {guests} is booked."

        @server.tool()
        def charge_card(amount: int) -> str:
            """Charge the card of the guest."""
            self.ledger.append(f"charged {amount}")
            return f"The card is charged {amount}."

        @server.tool(name="pay.bill", description="Pay a bill.")
        def pay(amount: int) -> str:
            self.ledger.append(f"paid {amount}")
            return f"A bill of {amount} is paid."

        @server.tool()
        async def cook_dish(portions: int) -> str:
            """Cook a dish in the kitchen."""
            self.ledger.append(f"cooked {portions}")
            await anyio.to_thread.run_sync(self.kitchen.wait, ceiling())
            return f"{portions} portions are ready."

        return server


@pytest.fixture(scope="session")
def model_port(process_ring: None) -> Iterator[int]:
    with serve_in_thread(OfflineModel().app()) as port:
        yield port


@pytest.fixture(scope="session")
def keyed_model_port(process_ring: None) -> Iterator[int]:
    """Start an offline model that accepts only the key `right`, and yield its port."""
    with serve_in_thread(OfflineModel(key="right").app()) as port:
        yield port


class Recorder:
    """An offline model that records each request and its trace context."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.parents: list[str] = []
        self._app = OfflineModel().app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = bytearray()

        async def record_request() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body"):
                self.asked.append(json.loads(body))
                self.parents.append(dict(scope["headers"]).get(b"traceparent", b"").decode())
            return message

        await self._app(scope, record_request, send)

    @property
    def newest(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.asked[-1]["messages"]
        return messages


@pytest.fixture
def model(process_ring: None) -> Iterator[tuple[Recorder, dict[str, Any]]]:
    recorder = Recorder()
    with serve_in_thread(recorder) as port:
        yield (
            recorder,
            {
                "name": "offline",
                "baseUrl": f"http://127.0.0.1:{port}/v1",
                "contextWindow": 8000,
                "maxOutputTokens": 1000,
                "timeoutSeconds": 30,
            },
        )


@pytest.fixture
def serve(process_ring: None) -> Callable[..., Any]:
    return serve_in_thread


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def house_port(process_ring: None, house: House) -> Iterator[int]:
    with serve_in_thread(house.server().streamable_http_app()) as port:
        yield port
        house.kitchen.set()


_count = iter(range(1_000_000))


@dataclass
class Guest:
    """A caller of an agent over HTTP, with one of the tokens."""

    url: str
    ops_url: str
    process: ForkedProcess | None = None
    owner: str = "client:default"

    def http(self) -> httpx.AsyncClient:
        headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {TOKENS[self.owner]}"}
        return httpx.AsyncClient(verify=NO_TLS, base_url=self.url, headers=headers, timeout=ceiling())

    def by(self, owner: str) -> "Guest":
        return Guest(self.url, self.ops_url, self.process, owner)

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        async with self.http() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer: dict[str, Any] = (await http.post("/a2a", json=body)).json()
            return answer

    async def say(self, text: str | None, *, data: Any = None, now: bool = False, **message: Any) -> dict[str, Any]:
        answer = await self.call("SendMessage", saying(text, data=data, now=now, **message))
        assert "error" not in answer, answer
        task: dict[str, Any] = answer["result"]["task"]
        return task

    async def get(self, task: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (await self.call("GetTask", {"id": task["id"]}))["result"]
        return found

    async def rested(self, task: dict[str, Any]) -> dict[str, Any]:
        """Wait until the task is neither submitted nor working, and return it."""

        async def find_rested() -> dict[str, Any] | None:
            nonlocal found
            found = await self.get(task)
            return None if state(found) in {"submitted", "working"} else found

        found: dict[str, Any] = {}
        return await await_until(find_rested, "the task rests", shown=lambda: found, pause=0.05)

    async def events(self, method: str, params: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.http() as http, http.stream("POST", "/a2a", json=body) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])["result"]

    async def stream_until_completed(self, message: dict[str, Any], tool: str, *, times: int = 1) -> dict[str, Any]:
        """Send a message, and close its stream after `times` completed calls of the tool. Return the task.

        The result of a call is on disk before the stream reports it.
        """
        ended, task = 0, {}
        what = f"{times} completed calls of {tool}"
        async with within(what), aclosing(self.events("SendStreamingMessage", message)) as events:
            async for event in events:
                task = task or event.get("task") or {"id": event.get("statusUpdate", {}).get("taskId")}
                about = event.get("statusUpdate", {}).get("status", {}).get("message", {}).get("metadata", {})
                call = about.get(TOOL_CALL, {})
                ended += (call.get("phase"), call.get("name")) == ("completed", tool)
                if ended == times:
                    return task
        raise AssertionError(f"the stream ended after {ended} of {times} calls of {tool}")

    async def metric(self, name: str) -> float:
        async with httpx.AsyncClient(verify=NO_TLS, base_url=self.ops_url, timeout=ceiling()) as http:
            lines = (await http.get("/metrics")).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"fleetwright_{name}"))

    async def status(self) -> dict[str, Any]:
        """Return the status page; empty while the process does not listen yet."""
        async with httpx.AsyncClient(verify=NO_TLS, base_url=self.ops_url, timeout=ceiling()) as http:
            with suppress(httpx.TransportError):
                return dict((await http.get("/status")).json())
        return {}

    async def missing(self) -> list[str]:
        """Return the tools that the status page lists as missing from its MCP server."""
        (server,) = (await self.status())["mcpServers"]
        return list(server["missing"])

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def kill_during(self, task: dict[str, Any]) -> None:
        """Kill the process while it works on the task."""
        assert state(await self.get(task)) == "working", "the task ended before the kill, so the kill tests nothing"
        await self.kill()

    async def leave(self) -> None:
        """Stop the process with SIGTERM, as the kubelet does."""
        assert self.process is not None
        self.process.terminate()
        assert await self.process.wait() == 0

    async def ready(self) -> None:
        seen = ""
        async with httpx.AsyncClient(verify=NO_TLS, base_url=self.ops_url, timeout=ceiling()) as http:

            async def is_ready() -> bool:
                nonlocal seen
                try:
                    answer = await http.get("/readyz")
                except httpx.TransportError as error:
                    assert self.process is None or self.process.returncode is None, "the agent process exited"
                    seen = repr(error)
                    return False
                seen = answer.text
                return answer.status_code == 200

            await await_until(is_ready, "the agent is ready", shown=lambda: seen)


def saying(text: str | None, *, data: Any = None, now: bool = False, **message: Any) -> dict[str, Any]:
    parts = ([] if text is None else [{"text": text}]) + ([] if data is None else [{"data": data}])
    body = {"messageId": f"message-{next(_count)}", "role": "ROLE_USER", "parts": parts} | message
    return {"message": body, "configuration": {"returnImmediately": now}}


def state(task: dict[str, Any]) -> str:
    word: str = task["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
    return word


@pytest.fixture
def write(mounted: Any, documents: Any, model_port: int, house_port: int) -> Callable[..., None]:
    """Return a function that writes the configuration of an agent that uses the house's tools."""

    def write_config(*, server: dict[str, Any] | None = None, to: Any = mounted, **changes: Any) -> None:
        model = {
            "name": "offline",
            "baseUrl": f"http://127.0.0.1:{model_port}/v1",
            "contextWindow": 8000,
            "maxOutputTokens": 1000,
            "timeoutSeconds": 30,
            "price": {"inputPerMillion": "1", "outputPerMillion": "2"},
        }
        tools = {"name": "house", "url": f"http://127.0.0.1:{house_port}/mcp", **(server or {})}
        to.write(to.layout.config_file, documents(model=model, mcpServers=[tools], askHuman=True) | changes)

    return write_config


@asynccontextmanager
async def opened(mounted: Any, *, ready: bool = True, **seams: Any) -> AsyncIterator[Guest]:
    """Start the agent of these files on its two ports."""
    app = create_app(mounted.config(), layout=mounted.layout, retry_seconds=0.1, **seams)
    await app.start()
    async with serve_app(app.a2a, lifespan="off") as a2a, serve_app(app.ops, lifespan="off") as ops:
        guest = Guest(f"http://127.0.0.1:{a2a}", f"http://127.0.0.1:{ops}")
        try:
            if ready:
                await guest.ready()
            yield guest
        finally:
            await app.drain()
    await app.aclose()


@pytest.fixture
def agent(mounted: Any, write: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that starts the complete agent; starting it again is a graceful restart."""

    @asynccontextmanager
    async def start(
        *,
        conversations: Database | None = None,
        installed_plugins: Any = None,
        log: TaskLog | None = None,
        ready: bool = True,
        **changes: Any,
    ) -> AsyncIterator[Guest]:
        write(**changes)
        storage = conversations and sqlite_storage(mounted.layout.memory, conversations=conversations)
        seams = {"storage": storage, "installed_plugins": installed_plugins, "log": log}
        async with opened(mounted, ready=ready, **seams) as guest:
            yield guest

    return start


@pytest.fixture
def peer(
    tmp_path: Path, mount_below: Callable[..., Any], write: Callable[..., None], callers: Any
) -> Callable[..., Any]:
    """Start the agent `cook`, which the first agent may call, with a scripted turn or the complete loop."""

    @asynccontextmanager
    async def start(*, turn: Any = None, **changes: Any) -> AsyncIterator[Guest]:
        files = mount_below(tmp_path / "cook")
        write(to=files, name="cook", **changes)
        files.write(files.layout.callers_file, callers({"agent:team/echo": TOKENS["agent:team/echo"]}))
        async with opened(files, turn=turn) as guest:
            yield guest.by("agent:team/echo")

    return start


@pytest.fixture
def agent_process(fork_server: ForkServer, mounted: Any, write: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that starts an agent in a process of its own; starting it again is a restart.

    The end of the context kills the process.
    """

    @asynccontextmanager
    async def start(*, log: str = os.devnull, ready: bool = True, **changes: Any) -> AsyncIterator[Guest]:
        """Args: `log` is the path of the file that receives the log lines."""
        write(**changes)
        ports = free_ports()
        process = fork_server.start(serve_arguments(mounted.layout.root, ports), log=log)
        guest = Guest(*(f"http://127.0.0.1:{port}" for port in ports), process)
        try:
            if ready:
                await guest.ready()
            yield guest
        finally:
            await end_process(process)

    return start


@pytest.fixture
async def gated_agent(agent: Callable[..., Any]) -> AsyncIterator[Guest]:
    """An agent that asks for approval before it charges a card."""
    async with agent(approvals={"tools": ["house__charge_card"]}) as guest:
        yield guest


@pytest.fixture
def states() -> Callable[[dict[str, Any]], str]:
    return state


@pytest.fixture
def message() -> Callable[..., dict[str, Any]]:
    return saying


@pytest.fixture
def workspace(process_ring: None, tmp_path: Path) -> Iterator[LocalWorkspace]:
    (tmp_path / "workspace").mkdir()
    running = LocalWorkspace(tmp_path / "workspace")
    (running.root / "AGENTS.md").write_text("Use tabs.\n")
    (running.root / "app.py").write_text("one\ntwo\n")
    yield running
    running.stop()


@pytest.fixture
def coding(agent: Any, mounted: Any, serve: Callable[..., Any], workspace: LocalWorkspace) -> Callable[..., Any]:
    """Return a function that serves a scripted model, and returns the arguments of an agent that uses it."""

    @contextmanager
    def scripted(model: ScriptedModel, **changes: Any) -> Iterator[dict[str, Any]]:
        mounted.layout.workspace_token_file.parent.mkdir(parents=True, exist_ok=True)
        mounted.layout.workspace_token_file.write_text(TOKEN)
        with serve(model.app) as port:
            yield {
                "model": {
                    "name": "scripted",
                    "baseUrl": f"http://127.0.0.1:{port}/v1",
                    "contextWindow": 20_000,
                    "maxOutputTokens": 1000,
                    "timeoutSeconds": 30,
                },
                "mcpServers": [],
                "askHuman": False,
                "workspace": {"url": str(workspace.http.base_url).rstrip("/")},
                **changes,
            }

    return scripted


@pytest.fixture
def model_server(serve: Any) -> Iterator[tuple[BackgroundModel, dict[str, Any]]]:
    model = BackgroundModel()
    with serve(model) as port:
        url = f"http://127.0.0.1:{port}/v1"
        yield (
            model,
            {
                "name": "offline", "baseUrl": url, "contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30,
            },
        )  # fmt: skip


@pytest.fixture
def team(serve: Any, mounted: Any, model_server: Any) -> Any:
    """Return a context manager with the settings of an agent that reaches the cook through a gateway."""

    @contextmanager
    def settings(cook: Any, lost: LostAnswer | None = None) -> Iterator[dict[str, Any]]:
        mounted.layout.gateway_token_file.parent.mkdir(parents=True, exist_ok=True)
        mounted.layout.gateway_token_file.write_text("own-token")
        with serve(build_gateway(cook.url, lost)) as port:
            yield {"gateway": {"url": f"http://127.0.0.1:{port}"}, "model": model_server[1], "mcpServers": []}

    return settings
