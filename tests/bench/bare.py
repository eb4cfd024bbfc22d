"""The reference: a process that makes an Agent's writes as fast as a bare client can, and prints the duration.

    python -m tests.bench.bare '{"server": …, "agents": 200, "rate": 10}'

The writes of one Agent are sequential, as the operator's are. Agents run concurrently.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from e2e.control_plane.client import APPLY, Client, path_of
from e2e.faults.flows import agent
from tests.bench.recording import Write, load


async def main(order: dict[str, Any]) -> dict[str, Any]:
    writes = load(Path(order["writes"]))
    ca = Path(order["ca"])
    async with Client(order["server"], order["token"], ca, connections=order["connections"]) as client:
        if order.get("ceiling"):
            return await ceiling(client, order["space"], order["ceiling"], order["connections"])
        return await agents(client, writes, order)


async def agents(client: Client, writes: list[Write], order: dict[str, Any]) -> dict[str, Any]:
    """Create Agents and their children: at `rate` a second, or all at once if it is 0."""
    took: list[float] = []
    deployed: list[float] = []
    gate = asyncio.Semaphore(order["connections"])

    async def one(number: int) -> None:
        async with gate:
            whole, at_deployment = await _agent(client, writes, order["space"], f"{order['prefix']}-{number:05}")
            took.append(whole)
            deployed.append(at_deployment)

    started, cpu = time.monotonic(), time.process_time()
    tasks = []
    for number in range(order["agents"]):
        if order["rate"]:
            await asyncio.sleep(max(0.0, started + number / order["rate"] - time.monotonic()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    seconds = time.monotonic() - started
    cpu = time.process_time() - cpu
    return {"took": took, "deployed": deployed, "seconds": seconds, "cpu": cpu, "writes": len(writes) * len(took)}


async def _agent(client: Client, writes: list[Write], space: str, name: str) -> tuple[float, float]:
    """Return the seconds from the Agent's creation to the answer of its last write, and to that of its Deployment."""
    created = await client.request("POST", path_of("Agent", space), agent(name, space))
    began = time.monotonic()
    own = {"uid": created["metadata"]["uid"], "version": created["metadata"]["resourceVersion"]}
    deployed = 0.0
    for write in writes:
        filled = write.filled(name=name, space=space, **own)
        await client.send(filled.method, filled.path, filled.body.encode(), content=filled.content)
        if "/deployments/" in filled.path:
            deployed = time.monotonic() - began
    return time.monotonic() - began, deployed


async def ceiling(client: Client, space: str, number: int, at_once: int) -> dict[str, Any]:
    """Return how many small applies a second this client can make."""
    gate = asyncio.Semaphore(at_once)

    async def one(place: int) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{place}", "namespace": space}}
        path = f"{path_of('ConfigMap', space, f'c-{place}')}?fieldManager=bare&force=true"
        async with gate:
            await client.request("PATCH", path, {**body, "data": {"a": "x" * 500}}, content=APPLY)

    started, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(one(place) for place in range(number)))
    return {"rate": number / (time.monotonic() - started), "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
