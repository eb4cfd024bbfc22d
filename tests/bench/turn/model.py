"""A model server as thin as can be, in a process of its own: every request is answered with twenty small pieces.

python -m tests.bench.turn.model PORT
"""

import json
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

PIECES = 20


def _piece(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


_EVENTS = [*(_piece({"role": "assistant", "content": f"word{n} "}) for n in range(PIECES)), _piece({}, "stop")]


async def complete(request: Request) -> StreamingResponse:
    await request.body()

    async def events() -> AsyncIterator[bytes]:
        for event in _EVENTS:
            yield event
        yield b"data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def healthy(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


if __name__ == "__main__":
    routes = [Route("/v1/chat/completions", complete, methods=["POST"]), Route("/healthz", healthy)]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
