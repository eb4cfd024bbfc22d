"""Agent frameworks and a command line as A2A clients of one running server, directly and through the gateway.

google-adk's RemoteA2aAgent (2.13) and the A2AAgent of strands-agents (1.62) only send messages. They do not read, list
or cancel tasks, register receivers, verify signatures or request the extended card.
"""

import sys

import pytest
from tests.agent_image.foreign.client_reports import (
    BY_ADK,
    BY_AGENT_FRAMEWORK,
    BY_HANDLER,
    BY_STRANDS,
    CLIENTS,
    run_client,
)

pytestmark = [pytest.mark.starts_first, pytest.mark.exhaustive]

BINDINGS = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


def test_google_adk_remote_agent_works(agent, python_environment):
    seen = run_client(python_environment("adk-client") / "python", CLIENTS / "adk.py", agent.url, agent.token)
    unknown = seen.pop("unknown")
    assert seen == {key: value for key, value in BY_ADK.items() if key != "unknown"}
    # The gateway shows even the card only to callers that it knows.
    assert "401 Unauthorized" in unknown[0]


@BINDINGS
def test_strands_remote_agent_works_over_every_binding(agent, python_environment, binding):
    """The agent has no way to continue a task, so it reads a question but cannot answer it."""
    python = python_environment("strands-client") / "python"
    assert run_client(python, CLIENTS / "strands_agent.py", agent.url, agent.token, binding) == BY_STRANDS


@BINDINGS
def test_agent_framework_remote_agent_works_over_every_binding(agent, python_environment, binding):
    python = python_environment("agent-framework-client") / "python"
    seen = run_client(python, CLIENTS / "agent_framework_agent.py", agent.url, agent.token, binding)
    assert seen == BY_AGENT_FRAMEWORK


def test_handler_command_line_works(agent, receiver, python_environment):
    hook = f"handler-{agent.name}"
    program = python_environment("handler-client") / "handler"
    words = [program, agent.url, agent.token, receiver.hook_url(hook)]
    assert run_client(sys.executable, CLIENTS / "handler_cli.py", *words) == BY_HANDLER
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["task"]["status"]["state"]) == ("sesame", "TASK_STATE_COMPLETED")
