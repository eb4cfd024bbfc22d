"""A node that runs the pod of one agent as a real process on loopback, with the files that the API server holds."""

import base64
import contextlib
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.cluster.ports import free_address
from tests.controlplane.conftest import Object, Refusal, Space
from tests.support.machine import ceiling

_SCRAPE_SECONDS = 2.0


class WakingNode:
    """Starts and stops the process as the kubelet does. The memory volume outlives the pods."""

    def __init__(self, space: Space, agent: str, folder: Path, *, model: str) -> None:
        """Args: `model` is the URL of the model server, which replaces the unreachable one of the spec."""
        self._space = space
        self._agent = agent
        self._root = folder / "root"
        self._log = folder / "agent.log"
        self._model = model
        self._address = free_address()
        self._ops = f"http://{self._address}:7871"
        self._stopping = threading.Event()
        self._uid = ""
        self._scraped = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.before_start: Callable[[], None] = lambda: None
        self.after_start: Callable[[], None] = lambda: None
        self.before_ready: Callable[[], None] = lambda: None
        """Called before and after each start of the process, and before its pod is reported as ready."""
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(ceiling())
        self._end(signal.SIGKILL)
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0.05):
                self._look()
                self._scrape()
        except BaseException as problem:
            self.problem = problem
            raise

    def _look(self) -> None:
        pods = [
            pod for pod in self._space.list_objects("Pod") if pod["metadata"]["labels"].get("fleetwright.dev/agent")
        ]
        running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        if self._uid and self._uid not in [pod["metadata"]["uid"] for pod in running]:
            self._end(signal.SIGTERM)
            self._uid = ""
        for pod in running:
            if not self._uid:
                self._uid = pod["metadata"]["uid"]
                self._start(pod)
            elif self.process is not None and self.process.poll() is not None:
                self._start(pod)  # The container restarts after a crash.

    def _scrape(self) -> None:
        """Read the counters as Prometheus does, because an agent sleeps only after a scrape."""
        if self.process is not None and time.monotonic() > self._scraped + _SCRAPE_SECONDS:
            self._scraped = time.monotonic()
            _answers(f"{self._ops}/metrics")

    def _start(self, pod: Object) -> None:
        self.before_start()
        self._report(pod, ready=False)
        self._mount(pod)
        self.starts += 1
        words = ["serve", "--root", str(self._root), "--host", self._address]
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "fleetwright_agent", *words]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.after_start()
        while not self._stopping.wait(0.05) and self.process.poll() is None:
            if _answers(f"{self._ops}/readyz"):
                self.before_ready()
                self._report(pod, ready=True)
                return

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(ceiling())

    def _report(self, pod: Object, *, ready: bool) -> None:
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {
            "phase": "Running",
            "conditions": [condition],
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "containerStatuses": [
                {
                    "name": "agent",
                    "image": "img",
                    "imageID": "",
                    "ready": ready,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        }
        # The operator may have deleted the pod meanwhile.
        with contextlib.suppress(Refusal):
            name = pod["metadata"]["name"]
            self._space.admin.merge("Pod", self._space.name, name, {"status": status}, subresource="/status")

    def _mount(self, pod: Object) -> None:
        """Write the files of all ConfigMaps and Secrets that the pod mounts."""
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        (container,) = pod["spec"]["containers"]
        for mount in container["volumeMounts"]:
            folder = self._root / mount["mountPath"].lstrip("/")
            if files := self._files(volumes[mount["name"]]):
                for path, data in files.items():
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(data)
            else:
                folder.mkdir(parents=True, exist_ok=True)

    def _files(self, volume: Object) -> dict[str, bytes]:
        if source := volume.get("configMap"):
            body = self._space.get("ConfigMap", source["name"])
            data = {key: self._local(text).encode() for key, text in body["data"].items()}
        elif source := volume.get("secret"):
            body = self._space.get("Secret", source["secretName"])
            data = {key: base64.b64decode(text) for key, text in body["data"].items()}
        else:
            return {}
        items: Any = source.get("items") or [{"key": key, "path": key} for key in data]
        return {item["path"]: data[item["key"]] for item in items}

    def _local(self, text: str) -> str:
        return text.replace("http://192.0.2.1/v1", self._model)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ceiling(1.0)) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
