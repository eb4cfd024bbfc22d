"""One agent for all third-party clients: its specification, its card, its mounted files and its push receiver."""

import base64
import hashlib
import json
from dataclasses import dataclass, field

from e2e.cluster.ports import free_port
from tests.support.waiting import wait_until

from fleetwright_api.spec.agent import parse_agent
from fleetwright_cli.dev.gateway.local_tokens import agent_uid
from fleetwright_operator.build.card import agent_card, served_card
from fleetwright_operator.build.config.gateway import GatewayTrust
from fleetwright_operator.build.gateway_card import gateway_cards
from fleetwright_operator.credentials.jws import new_secret, signing_key
from fleetwright_operator.credentials.keyring import CardKey, card_signatures, key_set
from fleetwright_operator.settings import GatewayReference, PodSelector

TOKEN = "token-of-default"


@dataclass
class Receiver:
    """A push receiver that records each notification and its path."""

    heard: dict[str, list] = field(default_factory=dict)
    port: int = 0

    def hook_url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def wait_for_end(self, name):
        """Wait for a notification of a completed task at that path, and return its token and body."""

        def find():
            notifications = list(self.heard.get(f"/{name}", []))
            return next((sent for sent in notifications if "completed" in json.dumps(sent[1]).lower()), None)

        return wait_until(find, f"{name} is notified of the end of a task", shown=lambda: self.heard)


@dataclass(frozen=True)
class Served:
    """An address of the agent, and what a client needs there."""

    url: str
    token: str
    keys: str
    """The file with the keys that sign the card."""
    name: str


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


def gateway_reference():
    return GatewayReference(url=f"http://127.0.0.1:{GATEWAY_PORT.number}", pods=PodSelector(namespace="team"))


def build_card(view, url):
    return agent_card(view, url=url, skills=[])


def build_cards(view, url):
    """Return the agent's own card and those that the gateway serves, by key."""
    card = build_card(view, url)
    own = served_card(card, sign_card).text
    return {"agent-card.json": own, **gateway_cards(card, view, gateway_reference(), sign_card)}


def sign_card(card):
    return card_signatures(card, ring=RING, jku="")


def mount_agent(root, view, *, url, receiver):
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
    trust = GatewayTrust(issuer=gateway_reference().url, audience=agent_uid("team", view.name), keys=RING)
    write_file(configuration / "card/agent-card.json", served_card(build_card(view, url), sign_card).text)
    write_file(configuration / "agent.json", json.dumps(config))
    write_file(configuration / "auth/callers.json", json.dumps({"version": 1, "callers": [caller]}))
    write_file(configuration / "auth/gateway.json", trust.file)
    write_file(configuration / "push/keys", base64.urlsafe_b64encode(bytes(range(32))).decode())


def write_file(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
