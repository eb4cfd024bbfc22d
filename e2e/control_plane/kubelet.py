"""Reports the status of pods as a kubelet would: running and ready, or completed if the pod should end.

No container runs here. The API server removes a deleted pod without a node at once, unless the client disconnects
during the request. Such a pod only gets a deletion timestamp, and `Kubelet` removes it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
from e2e.control_plane.client import MERGE, Client, Object, Refusal, path_of
from e2e.control_plane.watch_cache import WatchCache

_GRACE_SECONDS = 1.0
"""Most deleted pods are gone after this time."""


async def _nowhere(_pod: Object) -> str:
    return ""


class Kubelet:
    def __init__(
        self, client: Client, watch_cache: WatchCache, *, address: Callable[[Object], Awaitable[str]] = _nowhere
    ) -> None:
        """Args: `address` returns the address of a pod that becomes ready; empty if it has none."""
        self._client = client
        self._watch_cache = watch_cache
        self._address = address
        self._tasks: set[asyncio.Task[None]] = set()
        watch_cache.listeners.append(self._hear)

    def _hear(self, event: str, kind: str, body: Object) -> None:
        if kind != "Pod" or event == "DELETED":
            return
        if "deletionTimestamp" in body["metadata"]:
            self._begin(self._end(body))
        elif body.get("status", {}).get("phase") == "Pending":
            self._begin(self._report(body))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, pod: Object) -> None:
        metadata = pod["metadata"]
        status = _ended(pod) if pod["spec"].get("restartPolicy") == "Never" else _ready(await self._address(pod))
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        path = f"{path_of('Pod', metadata['namespace'], metadata['name'])}/status"
        await self._insist("PATCH", path, patch, content=MERGE)

    async def _end(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await asyncio.sleep(_GRACE_SECONDS)
        if self._watch_cache.find("Pod", metadata["namespace"], metadata["name"]) is None:
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        await self._insist("DELETE", path_of("Pod", metadata["namespace"], metadata["name"]), options)

    async def _insist(self, method: str, path: str, body: Object, *, content: str = "application/json") -> None:
        while True:
            try:
                await self._client.request(method, path, body, content=content)
                return
            except Refusal as refusal:
                if refusal.status in {404, 409, 422}:  # the pod is gone, or another pod has its name
                    return
                await asyncio.sleep(0.5)
            except (aiohttp.ClientError, TimeoutError):  # the machine is busy; a kubelet tries again as well
                await asyncio.sleep(0.5)


def _ready(address: str) -> Object:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    place = {"podIP": address, "podIPs": [{"ip": address}]} if address else {}
    return {"phase": "Running", "conditions": [condition], **place}


def _ended(pod: Object) -> Object:
    ended = {"exitCode": 0, "reason": "Completed"}
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Succeeded", "containerStatuses": containers}
