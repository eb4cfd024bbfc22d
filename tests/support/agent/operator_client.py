"""The operator of an agent, which reads and decides open approvals over HTTP. Not a test."""

import hashlib
from dataclasses import dataclass
from typing import Any

import httpx
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS

TOKEN = "token-of-operator"
NEXT_TOKEN = "next-token-of-operator"


@dataclass
class Operator:
    """The operator of an agent."""

    url: str
    token: str = TOKEN

    def http(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(verify=NO_TLS, base_url=self.url, headers=headers, timeout=ceiling())

    async def read(self, **query: Any) -> httpx.Response:
        async with self.http() as http:
            return await http.get("/approvals", params=query)

    async def open(self, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.read(**query)).json()["open"]
        return found

    async def decide(self, approval: dict[str, Any], decision: str = "Approved", **body: Any) -> httpx.Response:
        said = {
            "task": approval["task"],
            "decision": decision,
            "decidedBy": "alice",
            "argumentsDigest": approval["argumentsDigest"],
            **body,
        }
        async with self.http() as http:
            return await http.post(f"/approvals/{approval['ask']}/decision", json=said)


def operator_document(*tokens: str) -> dict[str, Any]:
    return {"version": 1, "operators": [{"sha256": hashlib.sha256(token.encode()).hexdigest()} for token in tokens]}
