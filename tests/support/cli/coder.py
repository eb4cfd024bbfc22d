"""A coding agent for tests: a real agent and workspace, a scripted model over HTTP, and a git checkout to work in."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from tests.support.cli.dev_run import run_dev
from tests.support.cli.fleet import environment
from tests.support.http_server import serve_in_thread

from fleetwright_cli.terminal.transport.dev_fleet import default_state

SHOP = Path(__file__).parents[3] / "examples/coding-agent/shop"
AGENT = """\
apiVersion: fleetwright.dev/v1alpha1
kind: Agent
metadata: {name: coder}
spec:
  description: Repairs code
  instructions: Repair the code, and run the tests.
  model: {name: gpt-4o}
  workspace: {image: python, approvals: {edits: EDITS, shell: Tiered}}
"""


class ScriptedCoder:
    """A model that makes one tool call after the other, and then answers with the last result."""

    def __init__(self, calls: Sequence[tuple[str, Mapping[str, Any]]] = (), answer: str = "") -> None:
        """Args: `answer` replaces the last result as the answer."""
        self.calls = calls
        """The calls of each conversation."""
        self._answer = answer
        self.results: list[str] = []
        self.messages: list[Mapping[str, Any]] = []
        """The messages of the newest request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = json.loads(await Request(scope, receive).body())
        self.messages = body["messages"]
        self.results = [str(each["content"]) for each in body["messages"] if each["role"] == "tool"]
        response = StreamingResponse(self._events(len(self.results)), media_type="text/event-stream")
        await response(scope, receive, send)

    def _events(self, done: int) -> Iterator[str]:
        if done < len(self.calls):
            name, arguments = self.calls[done]
            call = {"index": 0, "id": f"call-{done}", "type": "function"}
            delta = {"tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}]}
            finish = "tool_calls"
        else:
            delta, finish = {"content": self._answer or self.results[-1]}, "stop"  # type: ignore[dict-item] # a text
        for choice in ({"delta": {"role": "assistant", **delta}}, {"delta": {}, "finish_reason": finish}):
            frame = {"id": "c", "created": 0, "model": "gpt-4o", "object": "chat.completion.chunk"}
            yield f"data: {json.dumps({**frame, 'choices': [{'index': 0, **choice}]})}\n\n"
        yield "data: [DONE]\n\n"


def begin_checkout(folder: Path) -> None:
    """Copy the shop, whose test fails, to a new git repository."""
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("__pycache__/\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        git(folder, *words)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Tester", "-c", "user.email=t@example.com", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def coding_fleet(root: Path, checkout: Path, model: ScriptedCoder, *, edits: str = "Ask") -> Iterator[dict[str, str]]:
    """Run the agent with the checkout as its workspace, and yield the environment of its user."""
    (root / "fleet").mkdir()
    (root / "home").mkdir()
    (root / "fleet/agent.yaml").write_text(AGENT.replace("EDITS", edits))
    fleet = root / "fleet"
    with serve_in_thread(model) as port:
        environ = environment(
            root / "home",
            OPENAI_API_KEY="k",
            OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1",
            OPENAI_MODEL="gpt-4o",
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        )
        words = ("--workspace", f"coder={checkout}", "--unsafe-workspace")
        state = default_state(fleet, environ)
        with run_dev(fleet, *words, state=state, log=root / "dev.log", environment=environ):
            yield environ
