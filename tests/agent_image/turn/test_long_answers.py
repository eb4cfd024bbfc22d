"""Streaming of a long answer: its pieces do not stay in memory as messages."""

import gc

import pytest
from langchain_core.messages import AIMessageChunk

from fleetwright_agent.protocol.frames import Text, TurnDone, TurnRequest

_PIECES = 3000
_MOST_KEPT = 200


@pytest.mark.parametrize(
    ("provider", "path"), [("OpenAI", "/v1"), ("Anthropic", ""), ("Google", "")], ids=["openai", "anthropic", "google"]
)
async def test_streamed_chunks_are_not_retained_as_messages(config, talking, model_port, provider, path):
    model = {"provider": provider, "baseUrl": f"http://127.0.0.1:{model_port}{path}", "timeoutSeconds": 60}
    kept, heard, answer = 0, 0, ""
    async with talking(config(model=model)) as talk:
        async for frame in talk.turn.run(TurnRequest("client:a", "c", "t", f"Tell me. [[long:{_PIECES}]]")):
            if isinstance(frame, Text):
                heard += 1
                if heard % 500 == 0:
                    kept = max(kept, sum(isinstance(each, AIMessageChunk) for each in gc.get_objects()))
            elif isinstance(frame, TurnDone):
                answer = frame.text
    assert answer == " ".join(f"word{number}" for number in range(_PIECES))
    assert heard >= _PIECES
    assert kept <= _MOST_KEPT
