"""An A2A agent that streams words at a fixed rate, one event a word, in a process of its own.

    python -m tests.bench.terminal.word_agent FOLDER

It writes its port to `FOLDER/port`. A message that is a number gets so many words at 100 words a second. Any other
message gets a short answer at once.
"""

import asyncio
import json
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_SECONDS = 0.01
_LINE = 12
_PARAGRAPH = 90


def words(count: int) -> list[str]:
    """Return Markdown with headings, lists, emphasis and code, one piece a word."""
    return [_word(number) for number in range(count)]


def _word(number: int) -> str:
    if number % _PARAGRAPH == 0:
        return f"\n\n## Part {number // _PARAGRAPH}\n\n"
    if number % _PARAGRAPH == 60:
        return "\n\n- an item "
    if number % _PARAGRAPH > 60 and number % 10 == 0:
        return "\n- an item "
    if number % 17 == 0:
        return f"**word{number}** "
    return f"`code{number}` " if number % 23 == 0 else f"word{number} "


def _card(request: Request) -> Response:
    url = f"{request.base_url}a2a"
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return JSONResponse({"name": "words", "version": "1", "supportedInterfaces": [interface]})


async def _rpc(request: Request) -> Response:
    body = await request.json()
    if body["method"] == "ListTasks":
        return JSONResponse({"result": {"tasks": []}})
    if body["method"] != "SendStreamingMessage":
        return JSONResponse({"error": {"code": -32601, "message": "not supported"}})
    message = body["params"]["message"]
    return StreamingResponse(_answer(message), media_type="text/event-stream")


async def _answer(message: dict[str, Any]) -> AsyncIterator[str]:
    task_id, context_id = str(uuid.uuid4()), message["contextId"]
    about = {"taskId": task_id, "contextId": context_id}
    text = message["parts"][0]["text"]

    def event(result: dict[str, Any]) -> str:
        return f"data: {json.dumps({'jsonrpc': '2.0', 'id': '1', 'result': result})}\n\n"

    def status(state: str) -> str:
        return event({"statusUpdate": {**about, "status": {"state": f"TASK_STATE_{state}"}}})

    def piece(content: str, *, append: bool) -> str:
        artifact = {"artifactId": "a", "parts": [{"text": content}]}
        return event({"artifactUpdate": {**about, "artifact": artifact, "append": append}})

    yield status("WORKING")
    if text.isdecimal():
        loop = asyncio.get_running_loop()
        began = loop.time()
        said = words(int(text))
        for number, word in enumerate(said):
            yield piece(word, append=number > 0)
            await asyncio.sleep(max(0.0, began + (number + 1) * _SECONDS - loop.time()))
        yield piece("".join(said), append=False)
    else:
        yield piece(f"An answer to {text}. " + "It has a few sentences. " * 10, append=False)
    yield status("COMPLETED")


def main() -> None:
    routes = [Route("/.well-known/agent-card.json", _card), Route("/a2a", _rpc, methods=["POST"])]
    listener = socket.create_server(("127.0.0.1", 0))
    (Path(sys.argv[1]) / "port").write_text(str(listener.getsockname()[1]))
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    main()
