"""Third-party SDKs of every dialect and binding against one running server, directly and through the gateway.

Each client makes the same calls and reports the results. The tests compare all reports with the guide's table of
clients. SDKs of 0.3 cannot list tasks, and sign another form of the card.
"""

import sys

import pytest
from tests.agent_image.foreign.client_reports import (
    BEFORE_1_0,
    BY_ADK,
    BY_AGENT_FRAMEWORK,
    BY_GO,
    BY_HANDLER,
    BY_JAVA,
    BY_STRANDS,
    CLIENTS,
    ROOT,
    SINCE_1_0,
    read_go_version,
    read_locked_version,
    read_maven_version,
    read_npm_version,
    run_client,
)
from tests.support.machine import ceiling

pytestmark = pytest.mark.starts_first

GUIDE = ROOT / "docs/guides/clients-and-dialects.md"
SHOWN_BY = {
    "send": "sent",
    "stream": "streamed",
    "get": "got",
    "list": "listed",
    "cancel": "cancelled",
    "answer a question": "asked",
    "push": "registered",
    "verify the card": "verified",
    "errors": "unknown",
}
"""The key of a client's report for each column of the guide's table."""


def expected_rows():
    """Return the results of each client by its row in the guide's table."""
    refused = {"unknown": ...}
    return {
        f"`a2a-sdk` {read_locked_version('dev', 'a2a-sdk')} (Python)": SINCE_1_0 | refused,
        f"`@a2a-js/sdk` {read_npm_version('@a2a-js/sdk')}": SINCE_1_0 | refused,
        f"`a2a-sdk` {read_locked_version('a2a-0.3-client', 'a2a-sdk')} (Python)": BEFORE_1_0 | refused,
        f"`@a2a-js/sdk` {read_npm_version('a2a-js-sdk-0.3')}": BEFORE_1_0 | refused,
        f"`a2a-java-sdk` {read_maven_version('a2a-java-sdk-client')}": BY_JAVA["JSONRPC"],
        f"`a2a-go` {read_go_version('github.com/a2aproject/a2a-go/v2')}": BY_GO,
        f"`google-adk` {read_locked_version('adk-client', 'google-adk')}, `RemoteA2aAgent`": BY_ADK,
        f"`strands-agents` {read_locked_version('strands-client', 'strands-agents')}, `A2AAgent`": BY_STRANDS,
        f"`agent-framework-a2a` {read_locked_version('agent-framework-client', 'agent-framework-a2a')}, `A2AAgent`": (
            BY_AGENT_FRAMEWORK
        ),
        f"`a2a-handler` {read_locked_version('handler-client', 'a2a-handler')}": BY_HANDLER,
        "0.1, written by hand": BEFORE_1_0 | refused,
    }


def test_client_guide_matches_observed_client_behaviour():
    lines = [line.strip("|").split("|") for line in GUIDE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    start = next(number for number, line in enumerate(cells) if line[1:] == list(SHOWN_BY))
    expected = expected_rows()
    rows = {line[0]: line[1:] for line in cells[start + 2 : start + 2 + len(expected)]}
    seen = {name: ["yes" if key in report else "–" for key in SHOWN_BY.values()] for name, report in expected.items()}
    assert rows == seen


BINDINGS = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


@pytest.mark.process
@BINDINGS
def test_python_sdk_1_x_works_over_every_binding(agent, receiver, binding):
    hook = f"python-1-{binding}-{agent.name}"
    seen = run_client(
        sys.executable, CLIENTS / "a2a_1.py", agent.url, agent.token, binding, receiver.hook_url(hook), agent.keys
    )
    assert seen == SINCE_1_0 | {"unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"}
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["task"]["artifacts"][0]["parts"]) == ("sesame", [{"text": "Done with wait 1."}])


@BINDINGS
def test_python_sdk_0_3_works_over_every_binding(agent, receiver, python_environment, binding):
    hook = f"python-0.3-{binding}-{agent.name}"
    python = python_environment("a2a-0.3-client") / "python"
    error = {"JSONRPC": "A2AClientJSONRPCError", "HTTP+JSON": "A2AClientHTTPError"}[binding]
    seen = run_client(python, CLIENTS / "a2a_0_3.py", agent.url, agent.token, binding, receiver.hook_url(hook))
    assert seen == BEFORE_1_0 | {"unknown": error, "ended": error}
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


@pytest.mark.exhaustive
@BINDINGS
def test_javascript_sdk_1_x_works_over_every_binding(agent, receiver, javascript_clients, binding):
    hook = f"javascript-1-{binding}-{agent.name}"
    kind = {"JSONRPC": "JsonRpc", "HTTP+JSON": "Rest"}[binding]
    errors = {"unknown": f"{kind}TaskNotFoundError", "ended": f"{kind}TaskNotCancelableError"}
    words = [agent.url, agent.token, binding, receiver.hook_url(hook), agent.keys]
    seen = run_client("node", javascript_clients / "a2a_1.mjs", *words)
    assert seen == SINCE_1_0 | errors
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["task"]["status"]["state"]) == ("sesame", "TASK_STATE_COMPLETED")


@pytest.mark.exhaustive
@BINDINGS
def test_javascript_sdk_0_3_works_over_every_binding(agent, receiver, javascript_clients, binding):
    hook = f"javascript-0.3-{binding}-{agent.name}"
    kind = {"JSONRPC": "JSONRPCError", "HTTP+JSON": "Error"}[binding]
    errors = {"unknown": f"TaskNotFound{kind}", "ended": f"TaskNotCancelable{kind}"}
    # The SDK resolves the path of the card relative to the address. Without a slash it would drop the last segment.
    seen = run_client(
        "node", javascript_clients / "a2a_0_3.mjs", f"{agent.url}/", agent.token, binding, receiver.hook_url(hook)
    )
    assert seen == BEFORE_1_0 | errors
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


@pytest.mark.exhaustive
@BINDINGS
def test_java_sdk_0_3_works_over_every_binding(agent, receiver, java_client, binding):
    """The SDK's HTTP client asks to upgrade to HTTP/2 in every request of a new connection."""
    hook = f"java-0.3-{binding}-{agent.name}"
    seen = run_client(*java_client, agent.url, agent.token, binding, receiver.hook_url(hook))
    assert seen == BY_JAVA[binding]
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


@pytest.mark.exhaustive
@pytest.mark.timeout(4 * ceiling())  # The first of these tests downloads and builds the SDK.
@BINDINGS
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_go_sdk_works_over_every_version_and_binding(agent, receiver, go_client, version, binding):
    hook = f"go-{version}-{binding}-{agent.name}"
    seen = run_client(go_client, agent.url, agent.token, version, binding, receiver.hook_url(hook))
    # The SDK refuses the card's securityRequirements, so the program removes them before it parses the card.
    assert "cannot unmarshal object" in seen.pop("refused")
    assert seen == {key: value for key, value in BY_GO.items() if key != "listed" or version == "1.0"}
    token, _ = receiver.wait_for_end(hook)
    assert token == "sesame"


def test_handwritten_0_1_client_works(agent, receiver):
    hook = f"hand-{agent.name}"
    seen = run_client(sys.executable, CLIENTS / "a2a_0_1.py", agent.url, agent.token, receiver.hook_url(hook))
    assert seen == BEFORE_1_0 | {"unknown": -32001, "ended": -32002}
    token, pushed = receiver.wait_for_end(hook)
    assert (token, pushed["status"]["state"], pushed["history"]) == ("sesame", "completed", [])
    assert pushed["artifacts"][0]["parts"] == [{"type": "text", "text": "Done with wait 1."}]


TRANSLATED = BEFORE_1_0 | {"card": "newest", "registered": False}


def test_python_sdk_0_3_works_with_an_agent_of_1_0(translated, python_environment):
    """The client reads the gateway's card, which lists the versions that the gateway translates."""
    python = python_environment("a2a-0.3-client") / "python"
    seen = run_client(python, CLIENTS / "a2a_0_3.py", translated.url, translated.token, "JSONRPC", "")
    assert seen == TRANSLATED | {"unknown": "A2AClientJSONRPCError", "ended": "A2AClientJSONRPCError"}


def test_handwritten_0_1_client_works_with_an_agent_of_1_0(translated):
    seen = run_client(sys.executable, CLIENTS / "a2a_0_1.py", translated.url, translated.token, "")
    assert seen == TRANSLATED | {"unknown": -32001, "ended": -32002}


@pytest.mark.exhaustive
def test_javascript_sdk_1_x_reads_the_card_of_translated_versions(translated, javascript_clients, receiver):
    words = [translated.url, translated.token, "JSONRPC", receiver.hook_url("javascript-1-newest"), translated.keys]
    seen = run_client("node", javascript_clients / "a2a_1.mjs", *words)
    errors = {"unknown": "JsonRpcTaskNotFoundError", "ended": "JsonRpcTaskNotCancelableError"}
    assert seen == SINCE_1_0 | errors | {"card": "newest"}
