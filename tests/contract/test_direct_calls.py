"""Direct calls of a declared peer: the exchange at the gateway, the proof of the caller, and the check of the callee.

All three programs run in memory. The transport of the caller takes the place of the network.
"""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Task
from joserfc.jwk import ECKey
from tests.support.agent.call_records import call_records
from tests.support.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text
from tests.support.gateway.served_gateway import CARD, URL
from tests.support.waiting import within

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.actors import Actor
from fleetwright_a2a.tokens.delegation_token import DelegationClaims, mint_delegation, verify_delegation
from fleetwright_a2a.tokens.keys import KeySet
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest, TurnDone, TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.tools.peers.direct import DirectCalls
from fleetwright_agent.tools.peers.dpop_auth import DPoPAuth, DPoPKey
from fleetwright_agent.tools.peers.exchange import TokenExchange
from fleetwright_agent.tools.peers.failures import PrincipalNotAccepted
from fleetwright_agent.tools.peers.tool import PeerTools, opaque_token
from fleetwright_agent.tools.port import ToolCall, ToolError
from fleetwright_gateway.app import build_gateway
from fleetwright_gateway.settings import GatewaySettings

OPAQUE = "t" * 43
PEER = Peer(name="writer", namespace="team", url="http://writer.team")
MODEL = {"name": "m", "baseUrl": "u", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 1}


class Network(httpx.AsyncBaseTransport):
    """Routes requests to the gateway or to the peer, and records them."""

    def __init__(self) -> None:
        self.gateway: httpx.AsyncBaseTransport | None = None
        self.peer: httpx.AsyncBaseTransport | None = None
        self.sent: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The caller changes and sends a request again after a challenge, so a copy is recorded.
        copy = httpx.Request(request.method, request.url, headers=request.headers, content=await request.aread())
        self.sent.append(copy)
        to = self.gateway if str(request.url).startswith(URL) else self.peer
        if to is None:
            raise httpx.ConnectError("nobody answers")
        return await to.handle_async_request(request)

    def to_peer(self) -> list[httpx.Request]:
        return [each for each in self.sent if each.method == "POST" and each.url.host == "writer.team"]

    def exchanges(self) -> int:
        return sum(str(each.url) == f"{URL}/oauth/token" for each in self.sent)


class Writer:
    """The turn of the peer. It asks a question if the message is `Maybe.`"""

    def __init__(self) -> None:
        self.heard: list[TurnRequest] = []

    async def run(self, request: TurnRequest, _: Any) -> Any:
        self.heard.append(request)
        if request.text == "Maybe." and request.reply is None:
            question = {"question": "Sure?"}
            yield InterruptRequest(InterruptKind.QUESTION, "Sure?", question, identity="q", tool="ask_human")
            return
        yield TurnDone(f"written for {request.owner}")

    async def aclose(self) -> None:
        """Do nothing, because the turn has no resources to close."""


class World:
    """The agent `desk` with its declared peer `writer`, and the gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = NOW
        self.clock = Clock(now_ns=lambda: int(self.seconds * 1e9))
        self.api = FleetApi()
        self.network = Network()
        self.restarted: httpx.AsyncBaseTransport | None = None
        self.writer = Writer()
        self.log = MemoryTaskLog()
        self.key = ECKey.generate_key("P-256", auto_kid=True)
        pod = self.api.add_running_agent("desk", spec={"peers": [{"name": "writer"}]})
        self.api.add_running_agent("writer")
        self.desk, self.theirs = Layout(root=folder / "desk"), Layout(root=folder / "writer")
        write(self.desk.gateway_token_file, pod)
        write(self.desk.peer_token_file("team", "writer"), OPAQUE)
        self.auth = DPoPAuth(
            proof_key := DPoPKey(self.clock.now),
            opaque=lambda url: opaque_token([PEER], self.desk, url),
            monotonic=lambda: self.seconds,
        )
        self.client = httpx.AsyncClient(transport=self.network, auth=self.auth)
        self.waits: list[float] = []
        exchange = TokenExchange(
            URL, self.client, proof_key, read_token=self._pod_token, now=self.clock.now, sleep=self._sleep
        )
        self.direct = DirectCalls(exchange, self.auth, self.log, now=self.clock.now)
        self.tools = PeerTools(
            "team/desk",
            [PEER],
            self.desk,
            self.client,
            memory_storage().questions,
            direct=self.direct,
            records=call_records(),
        )

    def _pod_token(self) -> str:
        return self.desk.gateway_token_file.read_text()

    async def _sleep(self, seconds: float) -> None:
        """The gateway has restarted after the wait, if it restarts."""
        self.waits.append(seconds)
        self.network.gateway = self.network.gateway or self.restarted

    def settings(self) -> GatewaySettings:
        ring = self.folder / "keys.json"
        write(ring, {"keys": [{**self.key.as_dict(private=True), "iat": 0}]})
        write(self.folder / "token", token_text("gateway", audience=ISSUER))
        return GatewaySettings(url=URL, keys_file=ring, service_account=self.folder)

    def write_peer_files(self, **trust: Any) -> None:
        keys = [self.key.as_dict(private=False)]
        document = {"version": 1, "issuer": URL, "audience": self.api.uid("writer"), "keys": keys, **trust}
        write(self.theirs.gateway_file, document)

    async def ask(self, *, owner: str = "client:a", task: str = "t", message: str = "Write.", **more: str) -> str:
        (tool,) = await self.tools.tools(None)  # type: ignore[arg-type] - every turn has the same peers
        request = TurnRequest(owner, "c1", task, "x")
        return str(await tool.run(ToolCall({"message": message, **more}, request, lambda _: None)))

    def delegated(self) -> list[str]:
        """Return the tasks that the delegations of the peer name. A request is repeated with the nonce of the peer."""
        keys = KeySet([self.key.as_dict(private=False)])
        sent = [each.headers["fleetwright-delegation"] for each in self.network.to_peer()]
        named = [verify_delegation(each, keys, issuer=URL, now=self.seconds).task for each in sent]
        return list(dict.fromkeys(named))

    async def begin_task_for_ada(self, *, expires: int = int(NOW) + 600) -> None:
        claims = DelegationClaims(
            issuer=URL, subject="user:ada", actor=Actor("user:ada", ""), holder="agent:team/desk",
            holder_uid=self.api.uid("desk"), task="t", token_id="d", issued_at=int(NOW), expires_at=expires,
        )  # fmt: skip
        held = Delegation(mint_delegation(claims, self.key), expires, "t")
        await self.log.accept(Claim("user:ada", "m", b""), Task(id="t", context_id="c1"), at_ns=1, delegation=held)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    callers = [{"name": "team/desk", "kind": "agent", "sha256": hashlib.sha256(OPAQUE.encode()).hexdigest()}]
    write(made.theirs.callers_file, {"version": 1, "callers": callers})
    write(made.theirs.card_file, {**CARD, "name": "writer", "defaultInputModes": ["text/plain"]})
    made.theirs.memory.mkdir(parents=True)
    made.write_peer_files()
    config = {"version": 1, "revision": "r", "name": "writer", "namespace": "team", "instructions": "i"}
    agent = AgentConfig.model_validate({**config, "url": PEER.url, "model": MODEL})
    log, storage = MemoryTaskLog(), memory_storage()
    app = create_app(agent, layout=made.theirs, turn=made.writer, log=log, storage=storage, clock=made.clock)
    await app.start()
    made.network.peer = httpx.ASGITransport(app.a2a)
    async with build_gateway(made.api, made.settings(), clock=made.clock) as gateway:
        assert await gateway.synchroniser.fill()
        made.network.gateway = httpx.ASGITransport(gateway.traffic)
        yield made
    await made.tools.close()
    await app.drain()
    await app.aclose()


async def test_direct_call_uses_a_token_bound_to_the_key_of_the_caller(world: World) -> None:
    assert await world.ask() == "written for agent:team/desk"
    sent = [each.headers["authorization"].partition(" ")[0] for each in world.network.to_peer()]
    assert set(sent) == {"DPoP"}
    proofs = [each.headers["dpop"] for each in world.network.to_peer()]
    assert len(set(proofs)) == len(proofs)
    assert all(world._pod_token() not in str(each.headers) for each in world.network.to_peer())


async def test_direct_call_names_the_principal_of_the_task(world: World) -> None:
    await world.begin_task_for_ada()
    assert await world.ask(owner="user:ada") == "written for user:ada via agent:team/desk"
    assert await world.ask(owner="client:b", task="u") == "written for agent:team/desk"


async def test_each_message_has_a_delegation_for_its_own_task(world: World) -> None:
    for _ in range(3):
        await world.ask()
    assert world.network.exchanges() == 4  # The first request gets the nonce.
    begun = [request.task_id for request in world.writer.heard]
    assert len(set(begun)) == 3
    assert world.delegated() == begun


async def test_answer_has_a_delegation_for_the_task_of_the_question(world: World) -> None:
    await world.begin_task_for_ada()
    assert "Sure?" in await world.ask(owner="user:ada", message="Maybe.")
    (asked,) = world.writer.heard
    answer = await world.ask(owner="user:ada", message="Yes.", task_id=asked.task_id)
    assert answer == "written for user:ada via agent:team/desk"
    assert world.delegated() == [asked.task_id]
    assert [request.task_id for request in world.writer.heard] == [asked.task_id] * 2


async def test_delegation_begins_no_second_task_at_the_peer(world: World) -> None:
    """The caller holds the delegation of the peer for a moment, and sends another message with it."""
    await world.begin_task_for_ada()
    await world.ask(owner="user:ada")
    sent, (task,) = world.network.to_peer()[-1], world.delegated()
    headers = {name: sent.headers[name] for name in ("authorization", "fleetwright-delegation", "a2a-version")}
    message = json.loads(sent.content)["params"]["message"]

    async def send(**changed: str) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {**message, **changed}}}
        return (await world.client.post(sent.url, json=call, headers=headers)).json()

    assert (await send())["result"]["task"]["id"] == task
    assert "another message has begun the task of this delegation" in (await send(messageId="m2"))["error"]["message"]
    assert "a task other than message.taskId" in (await send(messageId="m3", taskId="u"))["error"]["message"]
    assert len(world.writer.heard) == 1


async def test_recorded_request_is_refused(world: World) -> None:
    """A thief on the network has the token, the proof and the message, but not the key."""
    await world.ask()
    recorded = world.network.to_peer()[-1]
    assert world.network.peer is not None
    again = httpx.Request("POST", recorded.url, headers=recorded.headers, content=recorded.content)
    answer = await world.network.peer.handle_async_request(again)
    assert answer.status_code == 401
    assert "invalid_dpop_proof" in answer.headers["www-authenticate"]


async def asks(world: World) -> None:
    """Ask until the peer refuses. The peer looks at its files every 50 milliseconds."""
    for _ in range(1000):
        await world.ask()


async def give_keys_to_peer(world: World) -> None:
    """Write the keys, and wait until the peer has read them. It looks at its files every 50 milliseconds."""
    world.write_peer_files()
    headers = {"Authorization": "DPoP eyJ.x.x", "DPoP": "x"}
    client = httpx.AsyncClient(transport=world.network.peer, headers=headers)
    async with within("the peer reads the keys of the gateway"):
        while "DPoP" not in (await client.post(f"{PEER.url}/a2a", json={})).headers["www-authenticate"]:  # noqa: ASYNC110 - the peer sends no event
            await asyncio.sleep(0)


async def test_withdrawn_caller_is_refused_although_its_token_is_valid(world: World) -> None:
    await world.ask()
    revoked = [{"caller": world.api.uid("desk"), "notBefore": int(NOW) + 30}]
    world.write_peer_files(revoked=revoked)
    with pytest.raises(ToolError, match="does not accept this agent as a caller"):
        await asks(world)


async def test_message_has_a_token_of_the_current_key(world: World) -> None:
    """After the keys of the gateway were replaced, earlier tokens are of no use."""
    await world.ask()
    world.key = ECKey.generate_key("P-256", auto_kid=True)
    world.write_peer_files()
    world.settings()
    assert await world.ask() == "written for agent:team/desk"
    assert {each.headers["authorization"].partition(" ")[0] for each in world.network.to_peer()} == {"DPoP"}


async def test_opaque_token_is_used_while_the_gateway_is_away(world: World) -> None:
    world.network.gateway = None
    assert await world.ask() == "written for agent:team/desk"
    assert {each.headers["authorization"] for each in world.network.to_peer()} == {f"Bearer {OPAQUE}"}
    assert world.waits == []


async def test_call_for_a_principal_outlives_a_gateway_restart(world: World) -> None:
    await world.begin_task_for_ada()
    world.restarted, world.network.gateway = world.network.gateway, None
    assert await world.ask(owner="user:ada") == "written for user:ada via agent:team/desk"
    assert len(world.waits) == 1


async def test_opaque_token_is_used_for_a_peer_that_knows_no_proofs(world: World) -> None:
    world.theirs.gateway_file.unlink()
    assert await world.ask() == "written for agent:team/desk"
    assert [each.headers["authorization"].partition(" ")[0] for each in world.network.to_peer()] == ["DPoP", "Bearer"]
    world.network.sent.clear()
    await world.ask()
    assert [each.headers["authorization"] for each in world.network.to_peer()] == [f"Bearer {OPAQUE}"]


async def test_peer_that_gets_its_keys_later_is_used_properly(world: World) -> None:
    world.theirs.gateway_file.unlink()
    await world.ask()
    await give_keys_to_peer(world)
    world.seconds += 59
    world.network.sent.clear()
    await world.ask()
    assert {each.headers["authorization"] for each in world.network.to_peer()} == {f"Bearer {OPAQUE}"}
    world.seconds += 1
    world.network.sent.clear()
    await world.ask()
    assert {each.headers["authorization"].partition(" ")[0] for each in world.network.to_peer()} == {"DPoP"}


async def test_call_for_a_principal_fails_at_a_peer_without_keys(world: World) -> None:
    """Neither the call itself nor an earlier call of the agent for itself makes it a call of the agent."""
    await world.begin_task_for_ada()
    world.theirs.gateway_file.unlink()
    for _ in range(2):
        world.network.sent.clear()
        with pytest.raises(ToolError, match="does not accept calls for the caller of this task"):
            await world.ask(owner="user:ada")
        assert [each.headers["authorization"].partition(" ")[0] for each in world.network.to_peer()] == ["DPoP"]
        assert await world.ask(task="u") == "written for agent:team/desk"
    assert {request.owner for request in world.writer.heard} == {"agent:team/desk"}
    await give_keys_to_peer(world)
    assert await world.ask(owner="user:ada") == "written for user:ada via agent:team/desk"


async def test_poll_for_a_principal_uses_no_opaque_token(world: World) -> None:
    """A poll has no delegation of its own, so only its token tells that it is for a principal."""
    await world.begin_task_for_ada()
    world.theirs.gateway_file.unlink()
    token = await world.direct.token_for(PEER, "user:ada", "t")
    assert token is not None
    with pytest.raises(PrincipalNotAccepted):
        await world.client.post(f"{PEER.url}/a2a", json={}, headers=token.headers)


async def test_task_without_its_delegation_is_refused(world: World) -> None:
    """The check also applies while the peer is known to accept no tokens of the gateway."""
    world.theirs.gateway_file.unlink()
    await world.ask()
    world.network.sent.clear()
    with pytest.raises(ToolError, match="no right to ask other agents for its caller"):
        await world.ask(owner="user:ada", task="unknown")
    assert world.network.sent == []


async def test_call_for_a_principal_is_never_made_with_an_opaque_token(world: World) -> None:
    await world.begin_task_for_ada()
    world.network.gateway = None
    with pytest.raises(ToolError, match="cannot be asked for the caller of this task: the gateway is not reachable"):
        await world.ask(owner="user:ada")
    assert world.network.to_peer() == []
