"""A minimal model server in a process of its own. It answers every request with the same small pieces.

python -m tests.bench.turn.model PORT [PIECES]
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


def application(pieces: int) -> Starlette:
    async def complete(request: Request) -> StreamingResponse:
        await request.body()

        async def events() -> AsyncIterator[bytes]:
            for number in range(pieces):
                yield _piece({"role": "assistant", "content": f"word{number} "})
            yield _piece({}, "stop") + b"data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    routes = [Route("/v1/chat/completions", complete, methods=["POST"]), Route("/healthz", healthy)]
    return Starlette(routes=routes)


async def healthy(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else PIECES
    uvicorn.run(application(count), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
