"""Rotation of credentials and keys while agents work.

No caller that reads its token again is refused, and no pod restarts.
"""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from e2e.cluster import deploy
from e2e.scenarios.fleet import Caller, Fleet, agent
from google.protobuf.json_format import ParseDict
from jwt import PyJWK
from tests.support.machine import ceiling

KEYS = f"{deploy.RELEASE}-operator-card-keys"
REVOKED_SECONDS = 2.0
"""The promised time after which a revoked token is refused."""
CALL_SECONDS = 3.0
"""The time in which an agent answers a small request."""
CALLS_AFTERWARDS = 20
"""The number of calls with the second token of an agent."""

_CALLS = """
import json, socket, sys, time, urllib.error, urllib.request
url, file, token = sys.argv[1:4]
until, timeout, afterwards = float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
body = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}'
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
seen, tokens, lost, refused, admitted = {}, set(), [], None, False
while time.time() < until and refused is None and afterwards:
    bearer = open(file).read() if file else token
    tokens.add(bearer)
    afterwards -= len(tokens) > 1
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": "Bearer " + bearer}
    try:
        status = ask(urllib.request.Request(url, data=body, headers=headers), timeout=timeout).status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError as error:
        # A failed connection proves nothing about the token, and a name that is not resolved nothing about the agent.
        lost += [] if isinstance(getattr(error, "reason", None), socket.gaierror) else [str(error)]
        time.sleep(0.5)
        continue
    seen[status] = seen.get(status, 0) + 1
    if status == 200 and not admitted:
        print("admitted", flush=True)
        admitted = True
    refused = time.time() if status == 401 else None
    time.sleep(0.05)
print(json.dumps({"seen": seen, "tokens": len(tokens), "lost": lost, "refused": refused}))
"""
"""Send twenty calls a second until one is refused, or until some calls had a second token, or the time is over.

The token comes from a file each time, or is constant. The first line is `admitted`, once a call has succeeded. The last
line has the results.
"""


@dataclass(frozen=True)
class Vault:
    fleet: Fleet
    client: Caller

    @property
    def url(self) -> str:
        return f"http://vault.{self.fleet.namespace}.svc.cluster.local/a2a"

    @contextmanager
    def called(self, pod: str, *, file: str = "", token: str = "") -> Iterator[dict[str, Any]]:
        """Call the agent constantly from a pod during the block, which begins after the first admitted call.

        The results are available after the block.
        """
        limits = (time.time() + ceiling(), ceiling(CALL_SECONDS), CALLS_AFTERWARDS)
        program = ("python", "-c", _CALLS, self.url, file, token, *map(str, limits))
        outcome: dict[str, Any] = {}
        where = ("exec", pod, f"--namespace={self.fleet.namespace}", "--")
        with self.fleet.kubectl.following(*where, *program) as output:
            line = output.readline()  # The program ends by itself at the ceiling, admitted or not.
            assert line == "admitted\n", f"no call was admitted: {line}"
            yield outcome
            results = output.readline()
            assert results, "kubectl exec ended without the results of the calls; its error is on stderr"
            outcome |= json.loads(results)


@pytest.fixture(scope="module")
def vault(fleet: Fleet) -> Vault:
    clients = [{"name": "web"}, {"name": "job"}, {"name": "gone"}]
    auth = {"tokenTTL": "1m", "overlap": "30s", "clients": clients, "apiKey": True}
    fleet.apply(agent("vault", auth=auth), agent("desk", peers=[{"name": "vault"}]))
    client = fleet.caller("visitor", of="vault")
    fleet.ready("agent/vault", "agent/desk")
    fleet.until(lambda: client.reaches("vault", token=fleet.token("vault", "web")), "the network lets the visitor in")
    return Vault(fleet, client)


def pod_identity(fleet: Fleet, name: str) -> tuple[str, int]:
    pod = fleet.get(f"pod/{fleet.pod_of(name)}")
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def test_token_rotation_refuses_no_caller_that_rereads_its_token(vault: Vault) -> None:
    """Tokens rotate during constant calls; a caller that reads its token again is never refused."""
    fleet = vault.fleet
    before, first = pod_identity(fleet, "vault"), fleet.token("vault", "web")
    file = f"/etc/fleetwright/auth/peer.{fleet.namespace}.vault"
    failed: list[tuple[int, str]] = []
    lost: list[str] = []
    tokens = [first]

    def has_second_token() -> bool:
        tokens.append(fleet.token("vault", "web"))
        answer = vault.client.rpc("vault", "ListTasks", {}, token=tokens[-1])
        # A failed connection proves nothing about the token, so the call is repeated, as clients do.
        if not answer.status:
            lost.extend([] if "name resolution" in answer.body else [answer.body])
            answer = vault.client.rpc("vault", "ListTasks", {}, token=tokens[-1])
        failed.extend([(answer.status, answer.body)] if answer.status != 200 else [])
        return len(set(tokens)) > 1

    with vault.called(fleet.pod_of("desk"), file=file) as peer:
        fleet.until(has_second_token, "the client's token is rotated")
    print(f"an agent called {sum(peer['seen'].values())} times with {peer['tokens']} tokens: {peer['seen']}")
    print(f"a client called {len(tokens) - 1} times with {len(set(tokens))} tokens")
    assert peer["seen"].keys() == {"200"}
    assert failed == []
    assert len(lost) <= 1, lost
    assert len(peer["lost"]) <= 1, peer["lost"]
    assert peer["tokens"] == 2
    fleet.until(lambda: vault.client.status("vault", token=first) == 401, "a token whose time is over opens nothing")
    assert pod_identity(fleet, "vault") == before, "no pod was restarted"


def test_client_token_is_accepted_as_api_key(vault: Vault) -> None:
    def ask(headers: dict[str, str]) -> int:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
        common = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        return vault.client.http(vault.url, body=body, headers=common | headers).status

    assert ask({"X-API-Key": vault.fleet.token("vault", "web")}) == 200
    assert ask({"X-API-Key": "x" * 43}) == 401


REVOCATIONS = [
    pytest.param("job", lambda fleet: fleet.run("delete", "secret", "vault-client-job"), id="its Secret is deleted"),
    pytest.param(
        "gone",
        lambda fleet: fleet.run(
            "patch",
            "agent/vault",
            "--type=merge",
            "-p",
            '{"spec":{"auth":{"clients":[{"name":"web"},{"name":"job"}]}}}',
        ),
        id="the client is taken off the list",
    ),
]


@pytest.mark.parametrize(("client", "revoke"), REVOCATIONS)
def test_revoked_token_is_refused_within_two_seconds(vault: Vault, client: str, revoke: Any) -> None:
    token = vault.fleet.token("vault", client)
    with vault.called(vault.client.pod, token=token) as calls:
        began = time.time()
        revoke(vault.fleet)
        accepted = time.time()
    assert calls["refused"], f"still let in: {calls['seen']}"
    print(
        f"refused {calls['refused'] - began:.2f} s after the command was begun, "
        f"{calls['refused'] - accepted:.2f} s after it returned; promised are 2"
    )
    assert calls["refused"] - accepted < ceiling(REVOKED_SECONDS)
    assert calls["seen"].keys() == {"200", "401"}


@pytest.mark.alone
def test_card_key_rotation_signs_every_card_without_a_restart(vault: Vault) -> None:
    fleet = vault.fleet
    before = pod_identity(fleet, "vault")
    (first, *_) = key_set(fleet)
    assert first in signers(served(vault))

    secret = fleet.kubectl.get("secret", KEYS, f"--namespace={deploy.SYSTEM}")
    ring = json.loads(base64.b64decode(secret["data"]["keys.json"]))
    aged = {"keys": [{**key, "iat": key["iat"] - 90 * 24 * 3600} for key in ring["keys"]]}
    data = {"keys.json": base64.b64encode(json.dumps(aged).encode()).decode()}
    where = f"--namespace={deploy.SYSTEM}"
    fleet.kubectl.run("patch", "secret", KEYS, where, "--type=merge", "-p", json.dumps({"data": data}))

    def signed_anew() -> bool:
        kids = signers(served(vault))
        return len(kids) == 2 and kids == list(key_set(fleet)) and kids[1] == first

    turned = fleet.until(signed_anew, "the served card has the signatures of two keys")
    print(f"the served card was signed by another key after {turned:.1f} s")
    card = served(vault)
    for keys in ({kid: key} for kid, key in key_set(fleet).items()):
        verify(card, keys)
    assert pod_identity(fleet, "vault") == before, "no pod was restarted"
    digest = fleet.get("agent/vault")["status"]["card"]["digest"]
    assert digest == f"sha256:{hashlib.sha256(card.encode()).hexdigest()}", "the status names the very bytes"


def served(vault: Vault) -> str:
    url = vault.url.removesuffix("/a2a") + "/.well-known/agent-card.json"
    return vault.client.http(url).body


def signers(card: str) -> list[str]:
    protected = [signature["protected"] for signature in json.loads(card or "{}").get("signatures", ())]
    return [json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["kid"] for text in protected]


def key_set(fleet: Fleet) -> dict[str, Any]:
    shown = fleet.kubectl.get("configmap", KEYS, f"--namespace={deploy.SYSTEM}")
    return {key["kid"]: key for key in json.loads(shown["data"]["jwks.json"])["keys"]}


def verify(card: str, keys: dict[str, Any]) -> None:
    """Verify a card with the a2a-sdk against these keys only."""
    (only,) = (PyJWK(key) for key in keys.values())
    create_signature_verifier(lambda *_: only, ["ES256"])(
        ParseDict(json.loads(card), AgentCard(), ignore_unknown_fields=True)
    )
