"""An agent in an isolated network with hostile DNS names, in which canary servers count connections. Not a test.

The caller starts this program in its own network and mount namespace, with a folder. The loopback interface there has
a public address, a private address and the cloud metadata address. A DNS server answers every name, and some names
with a different address each time. The program prints the agent's output and the connections of each canary as JSON.
"""

import asyncio
import hashlib
import json
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from tests.support.machine import ceiling
from tests.support.waiting import await_until

from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer, Peer
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.server.push.service import DeliveryTimes
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteOpenQuestions
from fleetwright_agent.tools.mcp.session import open_session
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.peers.call_records import CallRecords
from fleetwright_agent.tools.peers.client import peer_client
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext

PUBLIC, PRIVATE, METADATA, LOOPBACK, LOOPBACK_6 = "93.184.216.34", "10.0.0.1", "169.254.169.254", "127.0.0.1", "::1"
RESOLVER = "127.0.0.53"
CANARIES = (PRIVATE, METADATA, LOOPBACK, LOOPBACK_6)
NAMES: dict[str, list[list[str]]] = {
    "good.test": [[PUBLIC]],
    "rebinds.test": [[PUBLIC], [METADATA]],
    "rebinds-home.test": [[PUBLIC], [LOOPBACK]],
    "mixed.test": [[PUBLIC, LOOPBACK]],
    "metadata.test": [[METADATA]],
    "loopback.test": [[LOOPBACK]],
    "private.test": [[PRIVATE]],
}
"""The answers for a name to the first query, the second one and so on. The last answer repeats."""
SIX = {"six.test": LOOPBACK_6, "mapped.test": f"::ffff:{METADATA}", "nat64.test": "64:ff9b::a9fe:a9fe"}
PUSH_URLS = [
    *(f"http://{name}/" for name in ("mixed.test", "metadata.test", "loopback.test", "private.test", *SIX)),
    *(f"http://{host}/" for host in (METADATA, LOOPBACK, PRIVATE, "[::1]", "[::ffff:169.254.169.254]", "0.0.0.0")),
    *(f"http://{host}/" for host in ("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "127.1", "localhost")),
    *(f"http://{text}/" for text in (f"good.test@{METADATA}", f"good.test:80@{LOOPBACK}", f"good.test\\@{METADATA}")),
]
seen: Counter[str] = Counter()


def own_network() -> None:
    for words in (
        "ip link set lo up",
        *(f"ip address add {each}/32 dev lo" for each in (PUBLIC, PRIVATE, METADATA, RESOLVER)),
    ):
        subprocess.run(words.split(), check=True, capture_output=True)


def own_resolver(folder: Path) -> None:
    conf = folder / "resolv.conf"
    conf.write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", str(conf), "/etc/resolv.conf"], check=True, capture_output=True)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((RESOLVER, 53))
    threading.Thread(target=answer_names, args=(server,), daemon=True).start()


def answer_names(server: socket.socket) -> None:
    while True:
        question, client = server.recvfrom(512)
        server.sendto(answered(question), client)


def answered(question: bytes) -> bytes:
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode())
        at += 1 + length
    (kind,) = struct.unpack("!H", question[at + 1 : at + 3])
    addresses = looked_up(".".join(labels), kind)
    family = socket.AF_INET if kind == 1 else socket.AF_INET6
    packed = [socket.inet_pton(family, each) for each in addresses]
    records = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(each)) + each for each in packed)
    head = question[:2] + b"\x81\x80" + struct.pack("!HHHH", 1, len(packed), 0, 0)
    return head + question[12 : at + 5] + records


def looked_up(name: str, kind: int) -> list[str]:
    if kind == 28:
        return [SIX[name]] if name in SIX else []
    answers = NAMES.get(name, [[]]) if kind == 1 else [[]]
    return answers.pop(0) if len(answers) > 1 else answers[0]


async def canary(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    seen[writer.get_extra_info("sockname")[0]] += 1
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        moved = f"302 Found\r\nLocation: http://{METADATA}/" if "/moved" in head else "200 OK"
        writer.write(f"HTTP/1.1 {moved}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


class Turn:
    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]:
        yield TurnDone("Done.")

    async def aclose(self) -> None:
        """No resources to release."""


def mounted(folder: Path) -> tuple[AgentConfig, Layout]:
    layout = Layout(root=folder)
    digest = hashlib.sha256(b"t").hexdigest()
    callers = {"version": 1, "callers": [{"name": "c", "kind": "client", "sha256": digest}]}
    files = {layout.callers_file: json.dumps(callers), layout.card_file: '{"name": "a"}'}
    for file, text in (files | {layout.configuration / "push/keys": "k" * 43}).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    layout.memory.mkdir(parents=True)
    model = {"name": "m", "baseUrl": "http://x", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 1}
    document = {"version": 1, "revision": "r", "name": "a", "namespace": "n", "instructions": "i", "url": "http://a"}
    return AgentConfig.model_validate({**document, "model": model, "push": {"keyFile": "push/keys"}}), layout


async def pushed(folder: Path) -> dict[str, Any]:
    """Return the result of every registration and of every delivery."""
    config, layout = mounted(folder)
    app = create_app(config, layout=layout, turn=Turn(), push_times=DeliveryTimes(pauses=(0.05, 0.05)))
    await app.start()
    server = uvicorn.Server(uvicorn.Config(app.a2a, lifespan="off", log_config=None, ws="none"))
    serving = asyncio.create_task(server._serve([socket.create_server((LOOPBACK, 7870))]))
    headers = {"Authorization": "Bearer t", "A2A-Version": "1.0"}
    async with httpx.AsyncClient(
        base_url=f"http://{LOOPBACK}:7870", headers=headers, trust_env=False, timeout=ceiling()
    ) as http:

        async def call(method: str, params: dict[str, Any]) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer: dict[str, Any] = (await http.post("/a2a", json=body)).json()
            return answer

        async def told(name: str, url: str) -> Any:
            message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            params = {"message": message, "configuration": {"taskPushNotificationConfig": {"url": url}}}
            answer = await call("SendMessage", params)
            return answer.get("error", {}).get("code")

        refused = {url: await told(url, url) for url in PUSH_URLS}
        for url in ("http://good.test/", "http://rebinds.test/", "http://rebinds-home.test/", "http://good.test/moved"):
            assert await told(url, url) is None, url
        await await_until(
            lambda: app.status()["push"]["dead"] >= 3 and seen[PUBLIC],
            "three notifications are given up, and one arrives",
        )
    dead = [each["reason"] for each in app.status()["push"]["newest"]]
    await app.drain()
    server.should_exit = True
    await serving
    await app.aclose()
    return {"refused": refused, "dead": sorted(dead)}


async def asked(folder: Path) -> list[str]:
    """Return the results for a peer and an MCP server whose names resolve to forbidden addresses."""
    said = []
    token = Layout(root=folder).peer_token_file("n", "p")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("token")
    memory = Database(folder / "conversations.db", SCHEMA)
    for name in ("metadata.test", "loopback.test", "mapped.test"):
        peer = Peer(name="p", namespace="n", url=f"http://{name}")
        client = peer_client([peer.url])
        request = TurnRequest(owner="o", context_id="c", task_id="t", text="x", call_path=(), metadata={})
        storage = memory_storage()
        records = CallRecords(storage.peer_calls, storage.delegated, redact=str, now=lambda: 0.0)
        peers = PeerTools("n/a", [peer], Layout(root=folder), client, SqliteOpenQuestions(memory), records=records)
        (tool,) = await peers.tools(TurnContext(request, lambda _: None, {}))
        try:
            await tool.run(ToolCall(arguments={"message": "x"}, turn=request, emit=lambda _: None))
        except ToolError as error:
            said.append(str(error))
        await client.aclose()
        try:
            server = McpServer.model_validate({"name": "s", "url": f"http://{name}/mcp"})
            async with open_session(server, Layout(root=folder), seconds=5):
                pass
        except McpUnreachable as error:
            said.append(str(error))
    return said


async def main(folder: Path) -> None:
    own_network()
    own_resolver(folder)
    servers = [await asyncio.start_server(canary, each, 80) for each in (*CANARIES, PUBLIC)]
    for each in CANARIES:
        _, writer = await asyncio.open_connection(each, 80)
        writer.close()
    await asyncio.sleep(0.1)
    assert set(seen.values()) == {1}, "every canary answers"
    seen.clear()
    report = {**await pushed(folder), "asked": await asked(folder)}
    for server in servers:
        server.close()
    sys.stdout.write(json.dumps({**report, "seen": {each: seen[each] for each in (*CANARIES, PUBLIC)}}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
