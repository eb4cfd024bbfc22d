"""A local fleet for tests of the terminal: real agent processes, and a model whose answers tests script."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from tests.support.cli.dev_run import run_dev, run_fleetwright
from tests.support.http_server import serve_in_thread

from fleetwright_cli.offline.answers import newest_said, text_of
from fleetwright_cli.offline.model import OfflineModel

AGENTS = """\
apiVersion: fleetwright.dev/v1alpha1
kind: Agent
metadata: {name: desk}
spec:
  description: Answers customers
  instructions: You are the desk of a shop.
  model: {name: gpt-4o}
  askHuman: true
  auth: {clients: [{name: default}, {name: guest}], administrators: [default]}
  a2a: {extensions: {context: true}}
  mcpServers:
    - name: orders
      tools: {allow: [look_up_order, refund_order], requireApproval: [refund_order]}
---
apiVersion: fleetwright.dev/v1alpha1
kind: McpServer
metadata: {name: orders}
spec:
  workload:
    image: x
    command: [fleetwright, offline-orders]
    env: [{name: HOST, value: 127.0.0.1}]
    port: 8000
"""


@dataclass
class ScriptedModel:
    """The offline model, except for messages that contain the name of a script. A script yields pieces of text.

    A piece that is a function is called in the thread of the server before the next piece, and may wait.
    """

    scripts: dict[str, list[str | Callable[[], Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._offline = OfflineModel().app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/v1/chat/completions":
            await self._offline(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        script = self._script(json.loads(body))
        if script is not None:
            await StreamingResponse(_events(script), media_type="text/event-stream")(scope, receive, send)
            return
        unread = [body]

        async def replay() -> dict[str, Any]:
            return {"type": "http.request", "body": unread.pop()} if unread else await receive()

        await self._offline(scope, replay, send)

    def _script(self, body: Mapping[str, Any]) -> list[str | Callable[[], Any]] | None:
        at = newest_said(body["messages"])
        asked = text_of(body["messages"][at]) if at >= 0 else ""
        return next((script for name, script in self.scripts.items() if name in asked), None)


def _events(script: list[str | Callable[[], Any]]) -> Iterator[str]:
    def event(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        frame = {"id": "c", "created": 0, "model": "offline", "object": "chat.completion.chunk", "choices": [choice]}
        return f"data: {json.dumps(frame)}\n\n"

    yield event({"role": "assistant", "content": ""})
    for piece in script:
        if isinstance(piece, str):
            yield event({"content": piece})
        else:
            piece()
    yield event({}, "stop")
    yield "data: [DONE]\n\n"


def environment(home: Path, **changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "XDG_", "KUBE"))}
    return kept | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TERM": "xterm-256color"} | changes


@dataclass
class Fleet:
    """A running fleet."""

    state: Path
    home: Path
    model: ScriptedModel

    @property
    def address(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.state / "addresses.json").read_text())["desk"]
        return found

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "fleetwright_cli", *words]

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run `fleetwright run desk` with more words."""
        place = ("--state", str(self.state), "desk")
        return run_fleetwright("run", *place, *words, environment=environment(self.home), text=stdin)


@contextmanager
def running_fleet(root: Path) -> Iterator[Fleet]:
    folder, state, home = root / "fleet", root / "dev", root / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "agents.yaml").write_text(AGENTS)
    model = ScriptedModel()
    with serve_in_thread(model) as port:
        environ = environment(
            home,
            OPENAI_API_KEY="k",
            OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1",
            OPENAI_MODEL="gpt-4o",
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        )
        with run_dev(folder, state=state, log=root / "dev.log", environment=environ):
            yield Fleet(state, home, model)
