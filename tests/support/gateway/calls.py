"""Calls through a gateway of the fixture `client`: its callers, the agent that they call, and what they send."""

import json
from hashlib import sha256
from typing import Any

from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import Client

from fleetwright_api import names

CALLEE = "/agents/team/callee"
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}
ASLEEP = {"phase": "Asleep", "sleep": {"since": "2026-03-01T11:00:00Z"}}
CLIENT_TOKEN = "client-token-of-the-callee-" + "x" * 20


def caller_token(api: FleetApi, name: str = "caller") -> str:
    return next(token for token, found in api.tokens.items() if found["user"]["username"].endswith(f":{name}"))


def add_caller_token(api: FleetApi, *namespaces: str) -> str:
    """Return the token of a person who may call every agent of the namespaces."""
    api.grants |= {("ada", namespace, "") for namespace in namespaces}
    return api.add_person("ada")


async def request_json(client: Client, path: str, *, token: str = "", status: int = 200, **more: Any) -> dict[str, Any]:
    method = "POST" if "json" in more or "data" in more else "GET"
    async with client.request(method, path, token=token, **more) as answer:
        assert answer.status == status, await answer.text()
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


def build_interface(version: Any, binding: Any = "JSONRPC") -> dict[str, Any]:
    return {"url": "http://callee/a2a", "protocolBinding": binding, "protocolVersion": version}


def list_client(api: FleetApi, agent: str, token: str = CLIENT_TOKEN, *, namespace: str = "team", **entry: Any) -> None:
    """Write the list of clients of an agent, as the operator does."""
    digest = sha256(token.encode()).hexdigest()
    document = {"version": 1, "clients": [{"name": "shop", "sha256": digest, **entry}]}
    found = api.find(names.AGENT, agent, namespace=namespace)
    owner = {"kind": names.AGENT, "name": agent, "uid": found["metadata"]["uid"], "controller": True}
    put_list(api, agent, document, owner, namespace=namespace)


def put_list(api: FleetApi, agent: str, document: Any, owner: dict[str, Any], *, namespace: str = "team") -> None:
    metadata = {
        "namespace": namespace,
        "name": names.agent_gateway_clients(agent),
        "labels": {names.MANAGED_BY: names.FIELD_MANAGER},
        "ownerReferences": [owner],
    }
    api.put({"kind": "ConfigMap", "metadata": metadata, "data": {names.CLIENTS_KEY: json.dumps(document)}})
