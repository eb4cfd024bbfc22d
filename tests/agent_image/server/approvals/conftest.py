"""An agent that asks for approvals, and its operator, which reads and decides them over HTTP."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.agent_image.operator_client import NEXT_TOKEN, TOKEN, Operator, operator_document

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest

ARGUMENTS = {"amount": 30}


async def asks_twice(request: TurnRequest) -> AsyncIterator[Frame]:
    """Ask for one approval, or for two if the text is `twice`, and repeat the reply."""
    if request.reply is None or request.reply.value == {"approved": True, "reason": "more"}:
        number = 1 if request.reply is None else 2
        payload = {"kind": "approval", "title": "Charge 30?", "detail": '{"amount": 30}', "project": "team/echo"}
        ask = f"ask-{request.task_id}-{number}"
        yield InterruptRequest(InterruptKind.APPROVAL, "Charge?", payload, ask, "house__charge_card", ARGUMENTS)
        return
    yield Text(f"{request.reply.value}")
    yield TurnDone(f"{request.reply.value}")


@pytest.fixture(autouse=True)
def operator_tokens(mounted: Any) -> None:
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN, NEXT_TOKEN))


@pytest.fixture
def operator_of() -> Callable[..., Operator]:
    return Operator


@pytest.fixture
def asking() -> Callable[[TurnRequest], AsyncIterator[Frame]]:
    return asks_twice
