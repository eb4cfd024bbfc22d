"""The models that threads share are built before the first turn."""

import subprocess
import sys

import pytest

_LOADED = """
from fleetwright_a2a.lazy_import import fast_imports
with fast_imports():
    from langchain_core import messages
    from fleetwright_agent.turn.message_models import build_message_models
names = ("AIMessage", "HumanMessage", "RemoveMessage", "SystemMessage", "ToolMessage")
print([getattr(messages, name).__pydantic_complete__ for name in names])
build_message_models()
print([getattr(messages, name).__pydantic_complete__ for name in names])
"""


@pytest.mark.process
def test_deferred_classes_of_messages_are_built_at_once() -> None:
    # In a process of its own, because this one has already imported LangChain.
    ran = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [str([False] * 5), str([True] * 5)]
