"""The streamed output of a tool: pieces are merged for a tenth of a second, and their sum is bounded."""

import asyncio

from tests.support.virtual_time import run

from fleetwright_agent.protocol.frames import ToolOutput
from fleetwright_agent.turn.pipeline.tool.output_stream import MOST_CHARACTERS, OutputStream


def test_output_stream_merges_chunks_for_100_ms():
    frames = []

    async def write():
        stream = OutputStream("1", "t", frames.append)
        stream.write("a")
        stream.write("b")
        await asyncio.sleep(0.11)
        stream.write("c")
        stream.close()
        stream.write("late")
        await asyncio.sleep(1)

    run(write())
    assert frames == [ToolOutput("1", "t", "ab"), ToolOutput("1", "t", "c")]


def test_output_stream_ends_at_its_limit():
    frames = []

    async def write():
        stream = OutputStream("1", "t", frames.append)
        for _ in range(100):
            stream.write("x" * 1000)
        stream.close()

    run(write())
    (frame,) = frames
    assert frame.text == "x" * MOST_CHARACTERS + "\n[The output is longer; the rest is not shown.]"
