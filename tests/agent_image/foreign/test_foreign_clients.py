"""Clients that others wrote, of every dialect and binding, against one running server. Each does the same and tells."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fleetwright_operator.desired.card import agent_card, served_card
from fleetwright_operator.jws import new_secret, signing_key
from fleetwright_operator.keyring import CardKey, card_signatures, key_set

CLIENTS = Path(__file__).with_name("clients")
PROGRAM = Path(__file__).parents[1] / "server/agent_process.py"
TOKEN = "token-of-default"
SEEN = {
    "card": "echo",
    "sent": ["completed", "Done with hello."],
    "streamed": ["working", "completed", "Done with hello again."],
    "got": ["completed", "Done with hello."],
    "cancelled": "canceled",
}
SINCE_1_0 = SEEN | {"listed": [True]}
BEFORE_1_0 = SEEN | {"finals": 1}


@pytest.fixture(scope="session")
def agent(tmp_path_factory, start_for_all):
    """An agent with the card that the operator would give it: its address, and the file with the keys of the card."""
    root = tmp_path_factory.mktemp("agent")
    configuration = root / "etc/fleetwright"
    secret = new_secret()
    ring = (CardKey(signing_key(secret), secret, 0),)
    keys = root / "keys.json"
    keys.write_text(key_set(ring))
    (root / "var/lib/fleetwright").mkdir(parents=True)

    def mount(port):
        url = f"http://127.0.0.1:{port}"
        spec = {"instructions": "Repeat.", "auth": {"apiKey": True}}
        card = agent_card({"metadata": {"name": "echo", "namespace": "team"}, "spec": spec}, url=url, skills=[])
        served = served_card(card, lambda unsigned: card_signatures(unsigned, ring=ring, jku=""))
        model = {"name": "m", "baseUrl": "http://127.0.0.1:9", "contextWindow": 1000, "maxOutputTokens": 100}
        config = {"version": 1, "revision": "0", "name": "echo", "namespace": "team", "instructions": "Repeat."}
        caller = {"kind": "client", "name": "default", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}
        _write(configuration / "card/agent-card.json", served.text)
        _write(
            configuration / "agent.json", json.dumps({**config, "url": url, "model": {**model, "timeoutSeconds": 5}})
        )
        _write(configuration / "auth/callers.json", json.dumps({"version": 1, "callers": [caller]}))

    port = start_for_all(sys.executable, str(PROGRAM), str(root), "$(PORT)", "0", before=mount)
    return f"http://127.0.0.1:{port}", str(keys)


def _write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def told(*command):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


BINDINGS = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


@BINDINGS
def test_the_python_sdk_of_1_x(agent, binding):
    url, keys = agent
    seen = told(sys.executable, CLIENTS / "a2a_1.py", url, TOKEN, binding, keys)
    assert seen == SINCE_1_0 | {"unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"}


@BINDINGS
def test_the_python_sdk_of_0_3(agent, python_environment, binding):
    url, _ = agent
    python = python_environment("a2a-0.3-client") / "python"
    error = {"JSONRPC": "A2AClientJSONRPCError", "HTTP+JSON": "A2AClientHTTPError"}[binding]
    assert told(python, CLIENTS / "a2a_0_3.py", url, TOKEN, binding) == BEFORE_1_0 | {"unknown": error, "ended": error}


@BINDINGS
def test_the_javascript_sdk_of_1_x(agent, javascript_clients, binding):
    url, keys = agent
    kind = {"JSONRPC": "JsonRpc", "HTTP+JSON": "Rest"}[binding]
    errors = {"unknown": f"{kind}TaskNotFoundError", "ended": f"{kind}TaskNotCancelableError"}
    assert told("node", javascript_clients / "a2a_1.mjs", url, TOKEN, binding, keys) == SINCE_1_0 | errors


@BINDINGS
def test_the_javascript_sdk_of_0_3(agent, javascript_clients, binding):
    url, _ = agent
    kind = {"JSONRPC": "JSONRPCError", "HTTP+JSON": "Error"}[binding]
    errors = {"unknown": f"TaskNotFound{kind}", "ended": f"TaskNotCancelable{kind}"}
    assert told("node", javascript_clients / "a2a_0_3.mjs", url, TOKEN, binding) == BEFORE_1_0 | errors


def test_a_client_of_0_1_written_by_hand(agent):
    url, _ = agent
    seen = told(sys.executable, CLIENTS / "a2a_0_1.py", url, TOKEN)
    assert seen == BEFORE_1_0 | {"unknown": -32001, "ended": -32002}


def test_the_remote_agent_of_google_adk(agent, python_environment):
    url, _ = agent
    seen = told(python_environment("adk-client") / "python", CLIENTS / "adk.py", url, TOKEN)
    assert seen == {"first": "Done with hello.", "second": "Done with hello again.", "errors": []}
