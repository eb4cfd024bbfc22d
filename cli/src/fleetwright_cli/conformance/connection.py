"""A connection to the A2A server under test. It sends what the checks ask for, valid or not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import httpx

from fleetwright_api.encoding.untrusted_json import read_json

_SECONDS: Final = 60.0
_LARGEST: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RpcReply:
    """An HTTP response, and the JSON-RPC document in it."""

    status: int
    document: Mapping[str, Any]
    """Empty if the body is no JSON object."""

    @property
    def result(self) -> Mapping[str, Any]:
        """The result; empty if the call failed."""
        found = self.document.get("result")
        return found if isinstance(found, Mapping) else {}

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error; None without one."""
        error = self.document.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        return code if isinstance(code, int) else None


class ProbedServer:
    """Raises httpx.RequestError if the server cannot be reached."""

    def __init__(self, http: httpx.AsyncClient, url: str, token: str) -> None:
        self._http = http
        self.url = url.rstrip("/")
        self._token = token
        self.endpoint = self.url

    async def card(self) -> tuple[int, Any]:
        """Return the HTTP status and the agent's card; None if the response is no JSON."""
        response = await self._http.get(f"{self.url}/.well-known/agent-card.json", headers=self._headers(True))
        try:
            return response.status_code, read_json(response.content)
        except ValueError:
            return response.status_code, None

    async def call(self, method: str, params: Mapping[str, Any], *, with_token: bool = True) -> RpcReply:
        body = {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}
        return await self.post(json.dumps(body), with_token=with_token)

    async def post(self, body: str, *, with_token: bool = True) -> RpcReply:
        headers = {**self._headers(with_token), "Content-Type": "application/json"}
        response = await self._http.post(self.endpoint, content=body, headers=headers, timeout=_SECONDS)
        return RpcReply(response.status_code, _parse_object(response.content[:_LARGEST]))

    async def stream(self, method: str, params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the results of all events of a stream."""
        body = {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}
        headers = {**self._headers(True), "Accept": "text/event-stream"}
        found: list[Mapping[str, Any]] = []
        async with self._http.stream("POST", self.endpoint, json=body, headers=headers, timeout=_SECONDS) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    document = _parse_object(line.removeprefix("data:"))
                    if isinstance(document.get("result"), dict):
                        found.append(document["result"])
        return found

    def _headers(self, with_token: bool) -> dict[str, str]:
        credential = {"Authorization": f"Bearer {self._token}"} if with_token and self._token else {}
        return {"A2A-Version": "1.0", **credential}


def _parse_object(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other text."""
    try:
        document = read_json(text)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}
