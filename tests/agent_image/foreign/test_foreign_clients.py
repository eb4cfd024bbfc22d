"""Third-party clients of every dialect and binding against one running server, directly and through the gateway.

Each client makes the same calls and reports the results. The tests compare them with the guide's table of clients.
google-adk's RemoteA2aAgent (2.13) only sends messages. It does not read, list or cancel tasks, register receivers,
verify signatures or request the extended card. SDKs of 0.3 cannot list tasks, and sign another form of the card.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from e2e.cluster.ports import free_port
from tests.support.agent import steered_agent
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.encoder import encode
from fleetwright_cli.dev.gateway.local_gateway import GatewayPlace, LocalGateway
from fleetwright_cli.dev.gateway.local_tokens import agent_uid, token_text
from fleetwright_operator.build.card import agent_card, served_card
from fleetwright_operator.build.config.gateway import GatewayTrust
from fleetwright_operator.build.gateway_card import gateway_cards
from fleetwright_operator.credentials.jws import new_secret, signing_key
from fleetwright_operator.credentials.keyring import CardKey, card_signatures, key_set, ring_text
from fleetwright_operator.settings import GatewayReference, PodSelector

pytestmark = pytest.mark.starts_first

CLIENTS = Path(__file__).with_name("clients")
ROOT = Path(__file__).parents[3]
TOKEN = "token-of-default"
SEEN = {
    "card": "echo",
    "sent": ["completed", "Done with hello."],
    "streamed": ["working", "completed", "Done with hello again."],
    "got": ["completed", "Done with hello."],
    "cancelled": "canceled",
    "asked": ["input-required", "Sure?", "completed", "Done with yes."],
    "registered": True,
}
SINCE_1_0 = SEEN | {"verified": True, "listed": [True], "asked": ["input_required", *SEEN["asked"][1:]]}
BEFORE_1_0 = SEEN | {"finals": 1}
BY_ADK = {
    "sent": ["Done with hello."],
    "streamed": [[True, "Working on it. "], [False, "Done with hello."]],
    "continued": [["Done with hello again."], True],
    "asked": [{"input_required": "Sure?"}, ["Done with yes."], True],
    "decided": [["Working on it. ", "Done with yes."], 0],
    "failed": ["It failed as it was told to."],
    "unknown": ["A2A request failed: HTTP Error 401: Client error '401 Unauthorized'"],
}
BY_JAVA = {
    "JSONRPC": BEFORE_1_0 | {"unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"},
    "HTTP+JSON": {key: value for key, value in BEFORE_1_0.items() if key != "asked"}
    | {"unknown": "A2AClientException", "ended": "A2AClientException"},
}
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


def locked(name, package):
    return re.search(rf"^{package}==(\S+)", (ROOT / f"locks/{name}.txt").read_text(), re.MULTILINE)[1]


def locked_by_npm(package):
    lock = json.loads(Path(__file__).with_name("npm-a2a").joinpath("package-lock.json").read_text())
    return lock["packages"][f"node_modules/{package}"]["version"]


def locked_by_maven(package):
    sums = Path(__file__).with_name("maven-a2a").joinpath("SHA256SUMS").read_text()
    return re.search(rf"  {package}-([\d.]+)\.Final\.jar$", sums, re.MULTILINE)[1]


def clients():
    """Return the results of each client by its row in the guide's table."""
    refused = {"unknown": ...}
    return {
        f"`a2a-sdk` {locked('dev', 'a2a-sdk')} (Python)": SINCE_1_0 | refused,
        f"`@a2a-js/sdk` {locked_by_npm('@a2a-js/sdk')}": SINCE_1_0 | refused,
        f"`a2a-sdk` {locked('a2a-0.3-client', 'a2a-sdk')} (Python)": BEFORE_1_0 | refused,
        f"`@a2a-js/sdk` {locked_by_npm('a2a-js-sdk-0.3')}": BEFORE_1_0 | refused,
        f"`a2a-java-sdk` {locked_by_maven('a2a-java-sdk-client')}": BY_JAVA["JSONRPC"],
        f"`google-adk` {locked('adk-client', 'google-adk')}, `RemoteA2aAgent`": BY_ADK,
        "0.1, written by hand": BEFORE_1_0 | refused,
    }


def test_client_guide_matches_observed_client_behaviour():
    lines = [line.strip("|").split("|") for line in GUIDE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    start = next(number for number, line in enumerate(cells) if line[1:] == list(SHOWN_BY))
    rows = {line[0]: line[1:] for line in cells[start + 2 : start + 2 + len(clients())]}
    seen = {name: ["yes" if key in told else "–" for key in SHOWN_BY.values()] for name, told in clients().items()}
    assert rows == seen


@dataclass
class Receiver:
    """A push receiver that records each notification and its path."""

    heard: dict[str, list] = field(default_factory=dict)
    port: int = 0

    def hook(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def ended(self, name):
        """Wait for a notification of a completed task at that path, and return its token and body."""

        def find():
            notifications = list(self.heard.get(f"/{name}", []))
            return next((each for each in notifications if "completed" in json.dumps(each[1]).lower()), None)

        return wait_until(find, f"{name} is notified of the end of a task", shown=lambda: self.heard)


@pytest.fixture(scope="session")
def receiver(process_ring: None):
    taken = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.heard.setdefault(self.path, []).append((self.headers["X-A2A-Notification-Token"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield taken
    server.shutdown()
    server.server_close()


@dataclass(frozen=True)
class Served:
    """An address of the agent, and what a client needs there."""

    url: str
    token: str
    keys: str
    """The file with the keys that sign the card."""
    name: str


@pytest.fixture(scope="session")
def direct(tmp_path_factory, start_for_all, receiver):
    """Start an agent with the operator's card."""
    return _started(tmp_path_factory, start_for_all, receiver, ECHO)


def _started(tmp_path_factory, start_for_all, receiver, view):
    root = tmp_path_factory.mktemp("agent")
    port = start_for_all(
        sys.executable,
        steered_agent.__file__,
        str(root),
        "$(PORT)",
        "0",
        before=lambda port: _mount(root, view, url=f"http://127.0.0.1:{port}", receiver=receiver.port),
    )
    return Served(f"http://127.0.0.1:{port}", TOKEN, str(root / "keys.json"), "direct")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    """Start a gateway. Its callers are persons."""
    folder = tmp_path_factory.mktemp("gateway")
    place = GatewayPlace(port=GATEWAY_PORT.number, folder=folder, person_token=token_text("user:developer", "secret"))
    place.keys_file.write_text(ring_text(RING))
    gateway = LocalGateway(place, namespace="team", on_wake=lambda _: None)
    gateway.start()
    yield gateway, place.person_token
    gateway.close()


@pytest.fixture(scope="session")
def behind_gateway(gateway, direct):
    return _put(gateway, direct, ECHO)


@pytest.fixture(scope="session")
def translated(tmp_path_factory, start_for_all, receiver, gateway):
    """Start an agent that supports only A2A 1.0, behind the gateway."""
    return _put(gateway, _started(tmp_path_factory, start_for_all, receiver, NEWEST), NEWEST)


def _put(gateway, served, view):
    """Add the agent to the gateway, and return its address there."""
    local, token = gateway
    card = _card(view, served.url)
    cards = {"agent-card.json": served_card(card, _sign).text, **gateway_cards(card, view, _gateway(), _sign)}
    local.put_agent(view.name, encode(view.spec), cards=cards, token="", phase="Running")
    local.put_pod(view.name, port=int(served.url.rpartition(":")[2]), ops_port=9, ready=True)
    return Served(f"{local.url}/agents/team/{view.name}", token, served.keys, "gateway")


@pytest.fixture(params=["direct", "behind_gateway"])
def agent(request):
    """The agent at its own address, and at the address of the gateway."""
    return request.getfixturevalue(request.param)


SPEC = {"instructions": "Repeat.", "auth": {"apiKey": True}, "a2a": {"push": {}}}
ECHO = parse_agent({"metadata": {"name": "echo", "namespace": "team"}, "spec": SPEC})
NEWEST = parse_agent(
    {
        "metadata": {"name": "newest", "namespace": "team"},
        "spec": {**SPEC, "a2a": {**SPEC["a2a"], "dialects": ["1.0"]}},
    }
)
SECRET = new_secret()
RING = (CardKey(signing_key(SECRET), SECRET, 0),)


@dataclass(frozen=True)
class Port:
    number: int = field(default_factory=free_port)


GATEWAY_PORT = Port()


def _gateway():
    return GatewayReference(url=f"http://127.0.0.1:{GATEWAY_PORT.number}", pods=PodSelector(namespace="team"))


def _card(view, url):
    return agent_card(view, url=url, skills=[])


def _sign(card):
    return card_signatures(card, ring=RING, jku="")


def _mount(root, view, *, url, receiver):
    model = {"name": "m", "baseUrl": "http://127.0.0.1:9", "contextWindow": 1000, "maxOutputTokens": 100}
    config = {
        "version": 1,
        "revision": "0",
        "name": view.name,
        "namespace": "team",
        "dialects": list(view.spec.a2a.dialects),
        "instructions": "Repeat.",
        "url": url,
        "model": {**model, "timeoutSeconds": 5},
        "push": {"keyFile": "push/keys", "allowedHosts": [{"host": "127.0.0.1", "port": receiver}]},
    }
    caller = {"kind": "client", "name": "default", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}
    (root / "var/lib/fleetwright").mkdir(parents=True)
    (root / "keys.json").write_text(key_set(RING))
    configuration = root / "etc/fleetwright"
    trust = GatewayTrust(issuer=_gateway().url, audience=agent_uid("team", view.name), keys=RING)
    _write(configuration / "card/agent-card.json", served_card(_card(view, url), _sign).text)
    _write(configuration / "agent.json", json.dumps(config))
    _write(configuration / "auth/callers.json", json.dumps({"version": 1, "callers": [caller]}))
    _write(configuration / "auth/gateway.json", trust.file)
    _write(configuration / "push/keys", base64.urlsafe_b64encode(bytes(range(32))).decode())


def _write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def told(*command):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ceiling(), check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


BINDINGS = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


@pytest.mark.process
@BINDINGS
def test_python_sdk_1_x_works_over_every_binding(agent, receiver, binding):
    hook = f"python-1-{binding}-{agent.name}"
    seen = told(sys.executable, CLIENTS / "a2a_1.py", agent.url, agent.token, binding, receiver.hook(hook), agent.keys)
    assert seen == SINCE_1_0 | {"unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"}
    token, pushed = receiver.ended(hook)
    assert (token, pushed["task"]["artifacts"][0]["parts"]) == ("sesame", [{"text": "Done with wait 1."}])


@BINDINGS
def test_python_sdk_0_3_works_over_every_binding(agent, receiver, python_environment, binding):
    hook = f"python-0.3-{binding}-{agent.name}"
    python = python_environment("a2a-0.3-client") / "python"
    error = {"JSONRPC": "A2AClientJSONRPCError", "HTTP+JSON": "A2AClientHTTPError"}[binding]
    seen = told(python, CLIENTS / "a2a_0_3.py", agent.url, agent.token, binding, receiver.hook(hook))
    assert seen == BEFORE_1_0 | {"unknown": error, "ended": error}
    token, pushed = receiver.ended(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


@pytest.mark.exhaustive
@BINDINGS
def test_javascript_sdk_1_x_works_over_every_binding(agent, receiver, javascript_clients, binding):
    hook = f"javascript-1-{binding}-{agent.name}"
    kind = {"JSONRPC": "JsonRpc", "HTTP+JSON": "Rest"}[binding]
    errors = {"unknown": f"{kind}TaskNotFoundError", "ended": f"{kind}TaskNotCancelableError"}
    words = [agent.url, agent.token, binding, receiver.hook(hook), agent.keys]
    seen = told("node", javascript_clients / "a2a_1.mjs", *words)
    assert seen == SINCE_1_0 | errors
    token, pushed = receiver.ended(hook)
    assert (token, pushed["task"]["status"]["state"]) == ("sesame", "TASK_STATE_COMPLETED")


@pytest.mark.exhaustive
@BINDINGS
def test_javascript_sdk_0_3_works_over_every_binding(agent, receiver, javascript_clients, binding):
    hook = f"javascript-0.3-{binding}-{agent.name}"
    kind = {"JSONRPC": "JSONRPCError", "HTTP+JSON": "Error"}[binding]
    errors = {"unknown": f"TaskNotFound{kind}", "ended": f"TaskNotCancelable{kind}"}
    # The SDK resolves the path of the card relative to the address. Without a slash it would drop the last segment.
    seen = told("node", javascript_clients / "a2a_0_3.mjs", f"{agent.url}/", agent.token, binding, receiver.hook(hook))
    assert seen == BEFORE_1_0 | errors
    token, pushed = receiver.ended(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


@pytest.mark.exhaustive
@BINDINGS
def test_java_sdk_0_3_works_over_every_binding(agent, receiver, java_client, binding):
    """The SDK's HTTP client asks to upgrade to HTTP/2 in every request of a new connection."""
    hook = f"java-0.3-{binding}-{agent.name}"
    seen = told(*java_client, agent.url, agent.token, binding, receiver.hook(hook))
    assert seen == BY_JAVA[binding]
    token, pushed = receiver.ended(hook)
    assert (token, pushed["kind"], pushed["status"]["state"]) == ("sesame", "task", "completed")


def test_handwritten_0_1_client_works(agent, receiver):
    hook = f"hand-{agent.name}"
    seen = told(sys.executable, CLIENTS / "a2a_0_1.py", agent.url, agent.token, receiver.hook(hook))
    assert seen == BEFORE_1_0 | {"unknown": -32001, "ended": -32002}
    token, pushed = receiver.ended(hook)
    assert (token, pushed["status"]["state"], pushed["history"]) == ("sesame", "completed", [])
    assert pushed["artifacts"][0]["parts"] == [{"type": "text", "text": "Done with wait 1."}]


TRANSLATED = BEFORE_1_0 | {"card": "newest", "registered": False}


def test_python_sdk_0_3_works_with_an_agent_of_1_0(translated, python_environment):
    """The client reads the gateway's card, which lists the versions that the gateway translates."""
    python = python_environment("a2a-0.3-client") / "python"
    seen = told(python, CLIENTS / "a2a_0_3.py", translated.url, translated.token, "JSONRPC", "")
    assert seen == TRANSLATED | {"unknown": "A2AClientJSONRPCError", "ended": "A2AClientJSONRPCError"}


def test_handwritten_0_1_client_works_with_an_agent_of_1_0(translated):
    seen = told(sys.executable, CLIENTS / "a2a_0_1.py", translated.url, translated.token, "")
    assert seen == TRANSLATED | {"unknown": -32001, "ended": -32002}


@pytest.mark.exhaustive
def test_javascript_sdk_1_x_reads_the_card_of_translated_versions(translated, javascript_clients, receiver):
    words = [translated.url, translated.token, "JSONRPC", receiver.hook("javascript-1-newest"), translated.keys]
    seen = told("node", javascript_clients / "a2a_1.mjs", *words)
    errors = {"unknown": "JsonRpcTaskNotFoundError", "ended": "JsonRpcTaskNotCancelableError"}
    assert seen == SINCE_1_0 | errors | {"card": "newest"}


@pytest.mark.exhaustive
def test_google_adk_remote_agent_works(agent, python_environment):
    seen = told(python_environment("adk-client") / "python", CLIENTS / "adk.py", agent.url, agent.token)
    unknown = seen.pop("unknown")
    assert seen == {key: value for key, value in BY_ADK.items() if key != "unknown"}
    # The gateway shows even the card only to callers that it knows.
    assert "401 Unauthorized" in unknown[0]
