"""Says of pods what a kubelet would: that they run and are ready, or, where they should end, that they did.

No container runs here. A pod that no node was chosen for goes at once when it is deleted.
"""

import asyncio

import aiohttp
from e2e.plane.client import Client, Object, Refusal
from e2e.plane.mirror import Mirror


class Kubelet:
    def __init__(self, client: Client, mirror: Mirror) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        mirror.listeners.append(self._hear)

    def _hear(self, event: str, kind: str, body: Object) -> None:
        phase = body.get("status", {}).get("phase")
        if kind == "Pod" and event != "DELETED" and phase == "Pending" and "deletionTimestamp" not in body["metadata"]:
            task = asyncio.create_task(self._report(body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _report(self, pod: Object) -> None:
        metadata = pod["metadata"]
        status = _ended(pod) if pod["spec"].get("restartPolicy") == "Never" else _ready()
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        while True:
            try:
                await self._client.merge("Pod", metadata["namespace"], metadata["name"], patch, subresource="/status")
                return
            except Refusal as refusal:
                if refusal.status in {404, 409, 422}:  # it went meanwhile, or another has its name
                    return
                await asyncio.sleep(0.5)
            except (aiohttp.ClientError, TimeoutError):  # a busy machine; a kubelet tries again as well
                await asyncio.sleep(0.5)


def _ready() -> Object:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"phase": "Running", "conditions": [condition]}


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
