"""The operator reads and decides approvals of a real runtime, with its own client and its own token."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent.approval_turn import ask_for_approvals
from tests.support.agent.served_agent import Mounted, Open, mounted_at, startable_agent

from fleetwright_api import names
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.approval import ApprovalSpec, parse_approval
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.approvals.approval_listing import OpenApproval, parse_listing
from fleetwright_operator.approvals.delivery import DeliveryAnswer, Outcome, decision_document
from fleetwright_operator.approvals.request_manifest import request_manifest
from fleetwright_operator.build.auth_files import Tokens
from fleetwright_operator.build.manifest import Owner
from fleetwright_operator.build.secrets import auth_secret
from fleetwright_operator.credentials.derived_tokens import operator_tokens, token_digests
from fleetwright_operator.credentials.jws import new_secret, signing_key
from fleetwright_operator.credentials.keyring import CardKey
from fleetwright_operator.manager.approvals_client import ApprovalsClient

UID = "uid-of-echo"
NOW = 1_700_000_000
OWNER = Owner(kind=names.AGENT, namespace="team", name="echo", uid=UID)
AGENT = parse_agent({"metadata": {"name": "echo", "namespace": "team", "uid": UID}, "spec": {"model": {"name": "m"}}})


class Operator:
    """The operator's client, with the token whose digest the runtime has mounted."""

    def __init__(self, client: ApprovalsClient, tokens: tuple[str, ...]) -> None:
        self._client = client
        self._tokens = tokens
        self._pod = CachedObject(
            kind="Pod", namespace="team", name="p", uid="p", resource_version="1", projection={"podIP": "127.0.0.1"}
        )

    async def open(self) -> tuple[OpenApproval, ...]:
        listing = parse_listing(await self._client.read(self._pod, self._tokens, after=None, wait=0), now=NOW)
        assert listing is not None
        return listing.asks

    async def decide(self, ask: OpenApproval, **decision: Any) -> Outcome:
        spec = spec_of(ask, **decision)
        return await self._client.deliver(self._pod, self._tokens, spec.request.ask, decision_document(spec))


def spec_of(ask: OpenApproval, *, digest: str = "", **decision: Any) -> ApprovalSpec:
    body = request_manifest(AGENT, ask, lambda _: None)
    request = {**body["spec"]["request"], **({"argumentsDigest": digest} if digest else {})}
    return parse_approval({**body, "spec": {"request": request, "decidedBy": "alice", **decision}}).spec


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return mounted_at(tmp_path)


@pytest.fixture
async def open_door(process_ring: None, mounted: Mounted) -> AsyncIterator[Open]:
    """Start the runtime behind a real HTTP server, and stop it after the test."""
    async with startable_agent(mounted) as start:
        yield start


@pytest.fixture
async def operator(open_door: Open, mounted: Mounted) -> AsyncIterator[Callable[[], Any]]:
    """Return a function that starts the runtime with the Secret that the operator builds."""
    secret = new_secret()
    tokens = operator_tokens((CardKey(signing_key(secret), secret, 0),), UID)
    data = auth_secret(OWNER, Tokens(operators=token_digests(tokens)), pending={})["data"]
    mounted.write(mounted.layout.operator_file, json.loads(base64.b64decode(data[names.OPERATOR_KEY])))
    opened: list[ApprovalsClient] = []

    async def start() -> tuple[Any, Operator]:
        door = await open_door(ask_for_approvals)
        opened.append(ApprovalsClient(port=int(door.url.rpartition(":")[2])))
        return door, Operator(opened[-1], tokens)

    yield start
    for client in opened:
        await client.close()


async def test_operator_understands_the_list_of_the_runtime(operator):
    door, client = await operator()
    task = await door.say("charge")
    (ask,) = await client.open()
    assert (ask.task, ask.context, ask.tool) == (task["id"], task["contextId"], "house__charge_card")
    assert (ask.title, ask.preview, ask.arguments) == ("Charge 30?", '{"amount": 30}', {"amount": 30})
    assert (ask.requested_by, ask.chain, ask.expires_at) == ("client:default", (), ask.created_at + 86_400)
    assert ask.created_at > NOW


async def test_runtime_understands_the_decision_of_the_operator(operator):
    door, client = await operator()
    task = await door.say("charge")
    (ask,) = await client.open()
    assert (await client.decide(ask, decision="Approved", digest=f"sha256:{'0' * 64}")).answer is DeliveryAnswer.CHANGED
    assert (await client.decide(ask, decision="Denied", reason="no")).answer is DeliveryAnswer.ACCEPTED
    assert (await client.decide(ask, decision="Denied", reason="no")).answer is DeliveryAnswer.ACCEPTED
    late = await client.decide(ask, decision="Approved", decidedBy="bob")
    assert (late.answer, late.decision, late.decided_by) == (DeliveryAnswer.DECIDED, "Denied", "alice")
    assert late.decided_at.endswith("Z")
    assert await client.open() == ()
    assert task["id"]


async def test_runtime_answers_a_decision_that_it_cannot_use(operator):
    door, client = await operator()
    await door.say("charge")
    (ask,) = await client.open()
    edit = await client.decide(ask, decision="Approved", arguments={"amount": 2**60})
    assert (edit.answer, "arguments" in edit.message) == (DeliveryAnswer.INVALID, True)
    other = parse_listing(
        {
            "version": "1",
            "open": [
                {"task": "t", "ask": "unknown", "argumentsDigest": ask.digest, "chain": [], "requestedBy": "client:x"}
            ],
        },
        now=NOW,
    )
    assert other is not None
    assert (await client.decide(other.asks[0], decision="Approved")).answer is DeliveryAnswer.NOT_FOUND
