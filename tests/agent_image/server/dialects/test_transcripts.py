"""Conversations with clients of A2A 0.1: responses must equal the recorded transcripts, except for timestamps."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.v01_transcripts import SCRIPT, TRANSCRIPTS, without_times

Open = Callable[..., Any]


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_v01_conversation_equals_its_transcript(open_door: Open, written: Any, raw: Any, name: str) -> None:
    door = await open_door(executor=written(SCRIPT))
    async with raw(door) as caller:
        for exchange in TRANSCRIPTS[name]:
            request = exchange.request
            call = caller.stream if exchange.is_stream else caller.call
            found = await call(request["method"], request["params"], request_id=request["id"])
            responses = found if exchange.is_stream else [json.dumps(found)]
            assert [without_times(each) for each in responses] == exchange.responses
