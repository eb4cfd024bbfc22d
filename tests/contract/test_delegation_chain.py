"""The gateway and three agents: the last agent knows the person who began, ten minutes and a sleep later."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.cluster.ports import free_port
from joserfc.jwk import ECKey
from tests.support.agent.call_records import call_records
from tests.support.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text
from tests.support.gateway.served_gateway import CARD, URL, Client, running
from tests.support.http_server import serve_app
from tests.support.machine import ceiling

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.actors import Actor
from fleetwright_a2a.tokens.delegation_token import verify_delegation
from fleetwright_a2a.tokens.keys import KeySet
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import TurnDone, TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.gateway_calls import GatewayCalls
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import ToolCall
from fleetwright_agent.turn.context import TurnContext
from fleetwright_api import names
from fleetwright_gateway.settings import GatewaySettings

pytestmark = pytest.mark.process
ADDRESSES = {"lead": "127.0.0.2", "researcher": "127.0.0.3", "writer": "127.0.0.4"}
MODEL = {"name": "m", "baseUrl": "u", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 1}
ASLEEP = {"phase": "Asleep", "sleep": {"since": "2026-03-01T11:00:00Z"}}


class Team:
    """The cluster, the gateway, and one clock for all programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = NOW
        self.api = FleetApi()
        self.key = ECKey.generate_key("P-256", auto_kid=True)
        self.public = self.key.as_dict(private=False)
        self.clock = Clock(now_ns=lambda: int(self.seconds * 1e9))
        self.tokens: dict[str, str] = {}
        self.gateway: Client | None = None
        self.port = free_port(ADDRESSES["lead"])

    def settings(self) -> GatewaySettings:
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps({"keys": [{**self.key.as_dict(private=True), "iat": 0}]}))
        (self.folder / "token").write_text(token_text("gateway", audience=ISSUER))
        return GatewaySettings(url=URL, keys_file=keys, service_account=self.folder, agent_port=self.port)

    def wake(self, name: str) -> None:
        """Start the pod of a sleeping agent, as the operator does after the gateway's request."""
        owner = self.api.find("ReplicaSet", f"{name}-1")
        self.api.add_pod(f"{name}-1-a", owner=owner, account=name, ip=ADDRESSES[name])
        self.tokens[name] = self.api.add_pod_token(f"{name}-1-a", name)


class Member:
    """One agent of the team. Its turn asks the next agent, or answers."""

    def __init__(self, team: Team, name: str, asks: str = "", *, declared: bool = False) -> None:
        """Args: `declared` is True if the agent declares the next agent as a peer, instead of having a reach."""
        self.team = team
        self.name = name
        self.asks = asks
        self.declared = declared
        self.heard: list[TurnRequest] = []
        self.layout = Layout(root=team.folder / name)
        self.log = SqliteTaskLog(self._memory() / "tasks.db", now_ns=team.clock.now_ns)

    def _memory(self) -> Path:
        self.layout.memory.mkdir(parents=True)
        return self.layout.memory

    def write_files(self) -> None:
        trust = {"version": 1, "issuer": URL, "audience": self.team.api.uid(self.name), "keys": [self.team.public]}
        files = {
            self.layout.callers_file: {"version": 1, "callers": []},
            self.layout.gateway_file: trust,
            self.layout.card_file: {**CARD, "name": self.name, "defaultInputModes": ["text/plain"]},
        }
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))

    async def run(self, request: TurnRequest, _: Any) -> AsyncIterator[TurnDone]:
        self.heard.append(request)
        self.team.seconds += 600
        yield TurnDone(await self._ask(request) if self.asks else f"written for {request.owner}")

    async def _ask(self, request: TurnRequest) -> str:
        assert self.team.gateway is not None
        self.layout.gateway_token_file.parent.mkdir(parents=True, exist_ok=True)
        self.layout.gateway_token_file.write_text(self.team.tokens[self.name])
        async with httpx.AsyncClient(timeout=ceiling()) as client:
            tools = self._peer_tools(client) if self.declared else self._fleet_tools(client)
            wanted = f"ask_{self.asks}" if self.declared else "ask_agent"
            context = TurnContext(request, lambda _: None, {})
            (tool,) = [each for each in await tools.tools(context) if each.name == wanted]
            call = ToolCall({"agent": self.asks, "message": "Go on."}, request, lambda _: None)
            answer = await tool.run(call)
            await tools.close()
        return str(answer)

    def _fleet_tools(self, client: httpx.AsyncClient) -> FleetTools:
        assert self.team.gateway is not None
        storage, me = memory_storage(), f"team/{self.name}"
        kept = storage.questions, storage.delegated
        return FleetTools(
            me,
            self.team.gateway.base,
            self.layout,
            client,
            *kept,
            self.log,
            now=self.team.clock.now,
            records=call_records(),
        )

    def _peer_tools(self, client: httpx.AsyncClient) -> PeerTools:
        assert self.team.gateway is not None
        url = f"{self.team.gateway.base}/agents/team/{self.asks}"
        named = {"name": self.asks, "namespace": "team", "url": url}
        peer = Peer.model_validate({**named, "throughGateway": True})
        calls = GatewayCalls(self.layout, self.log, now=self.team.clock.now)
        kept = memory_storage().questions
        return PeerTools(
            f"team/{self.name}", [peer], self.layout, client, kept, through_gateway=calls, records=call_records()
        )

    async def aclose(self) -> None:
        """Do nothing, because the turn has no resources to close."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        config = {"version": 1, "revision": "r", "name": self.name, "namespace": "team", "instructions": "i"}
        app = create_app(
            AgentConfig.model_validate({**config, "url": f"http://{self.name}", "model": MODEL}),
            layout=self.layout,
            turn=self,
            log=self.log,
            clock=self.team.clock,
        )
        await app.start()
        listener = socket.create_server((ADDRESSES[self.name], self.team.port))
        async with serve_app(app.a2a, listener, lifespan="off"):
            yield
            await app.drain()
        await app.aclose()


@pytest.mark.parametrize("declared", [False, True], ids=["found in the team", "declared as peers"])
async def test_person_is_known_to_the_third_agent_after_a_sleep(tmp_path, declared):
    """Ada asks the lead, the lead asks the researcher, and the researcher asks the writer, which sleeps at first."""
    team = Team(tmp_path)
    api, chain = team.api, {"lead": "researcher", "researcher": "writer"}
    members = [*(Member(team, name, asks, declared=declared) for name, asks in chain.items()), Member(team, "writer")]
    reach = {} if declared else {"fleet": {"reach": "Direct"}}
    for name, asks in chain.items():
        spec = {"peers": [{"name": asks}]} if declared else reach
        team.tokens[name] = api.add_running_agent(name, ip=ADDRESSES[name], spec=spec)
    calls = {"peers": [{"name": "lead"}]} if declared else reach
    api.add_agent("writer", spec={**calls, "sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    api.add_deployment("writer")
    for member in members:
        api.add_card(member.name, {**CARD, "name": member.name})
        member.write_files()
    api.grants.add(("ada", "team", "lead"))

    def on_change(_: str, kind: str, body: Any) -> None:
        asked = names.WAKE_ANNOTATION in body["metadata"].get("annotations", {})
        if kind == names.AGENT and asked and "writer" not in team.tokens:
            team.wake("writer")

    async with AsyncExitStack() as stack:
        team.gateway = await stack.enter_async_context(
            running(api, team.settings(), clock=team.clock, is_ready=_always)
        )
        api.listeners.append(on_change)
        for member in members:
            await stack.enter_async_context(member.served())
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Write about eggs."}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        async with team.gateway.request(
            "POST", "/agents/team/lead/a2a", token=api.add_person("ada"), json=body, headers={"A2A-Version": "1.0"}
        ) as answer:
            found = (await answer.json())["result"]["task"]
        (request,) = members[2].heard
        held = await members[2].log.delegation(request.owner, request.task_id)
    owner = "user:ada via agent:team/researcher"
    assert [part["text"] for each in found["artifacts"] for part in each["parts"]] == [f"written for {owner}"]
    assert [member.heard[0].owner for member in members] == ["user:ada", "user:ada via agent:team/lead", owner]
    assert held is not None
    claims = verify_delegation(held.token, KeySet([team.public]), issuer=URL, now=team.seconds)
    assert (claims.task, held.task_id) == (request.task_id, request.task_id)
    ada = Actor("user:ada", "")
    lead = Actor("agent:team/lead", api.uid("lead"), ada)
    assert (claims.subject, claims.actor) == (
        "user:ada",
        Actor("agent:team/researcher", api.uid("researcher"), lead),
    )


async def _always(_: Any, agent_uid: str) -> bool:
    return True
