"""An agent that asks for approvals, and its operator, which reads and decides them over HTTP."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.agent.approval_turn import ask_for_approvals
from tests.support.agent.operator_client import NEXT_TOKEN, TOKEN, Operator, operator_document

from fleetwright_agent.protocol.frames import Frame, TurnRequest


@pytest.fixture(autouse=True)
def operator_tokens(mounted: Any) -> None:
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN, NEXT_TOKEN))


@pytest.fixture
def operator_of() -> Callable[..., Operator]:
    return Operator


@pytest.fixture
def asking() -> Callable[[TurnRequest], AsyncIterator[Frame]]:
    return ask_for_approvals
