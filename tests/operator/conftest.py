"""Sample objects, an in-memory API server, and the operator running on it without a network."""

import asyncio
import base64
import copy
import itertools
import json
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from fleetwright_operator.api import names
from fleetwright_operator.encoding.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.kube.errors import ConflictError, InvalidRequestError, NotFoundError
from fleetwright_operator.kube.port import RESOURCES, Kept, Listing, Object, Resource
from fleetwright_operator.manager.composition import Clocks, build_manager
from fleetwright_operator.manager.leadership import workers, write_card_keys
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.observe.watch_index import Key
from fleetwright_operator.settings import PodSelector, Settings

GOLDEN = Path(__file__).parent / "golden"
NOW = "2026-03-01T12:00:00Z"
_OWN_VIEWS = {names.CARD_KEYS: "Secret", names.KEY_SET: "ConfigMap"}
_KEYS = {
    "containers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
}


def custom(kind: str, name: str, spec: Mapping[str, Any], *, namespace: str = "shop", **metadata: Any) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, **metadata},
        "spec": dict(spec),
        "status": {},
    }


def agent(name: str = "poet", *, namespace: str = "shop", **spec: Any) -> Object:
    model = {"name": "m", "baseURL": "https://models.example.com/v1"}
    return custom(names.AGENT, name, {"instructions": "Help.", "model": model, **spec}, namespace=namespace)


def skill(name: str = "haiku", text: str = "Three lines.") -> Object:
    document = f"---\nname: {name}\ndescription: Writes {name}.\n---\n{text}\n"
    files = {"SKILL.md": document, "references/form.md": "five seven five"}
    return custom(names.SKILL, name, {"source": {"inline": {"files": files}}})


def server(name: str = "tools", **workload: Any) -> Object:
    return custom(names.MCP_SERVER, name, {"workload": {"image": "docker.io/example/tools:1", **workload}})


def secret(name: str = "key", **data: str) -> Object:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data or {"api-key": "eA=="}}


class WriteStorm(BaseException):
    """Raised when there are more writes than any test expects.

    No handler of the operator catches it, so it ends the worker.
    """


class MemoryApi:
    """An in-memory API server as the operator sees it: server-side apply with field owners, guards and versions."""

    def __init__(self, *, write_cap: int = 5_000) -> None:
        self._asked = 0
        self._write_cap = write_cap
        self._objects: dict[tuple[str, str, str], _Stored] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self.writes: list[str] = []
        """`verb Kind name` of every requested write."""
        self.gets: list[str] = []
        self.fault: Callable[[int, str], Exception | None] = lambda number, what: None
        """Returns the error for a write, given its number and text. A write with an error does not happen."""
        self.lose: Callable[[int, str], bool] = lambda number, what: False
        """Returns True if the write happens but its answer is lost."""
        self.listeners: list[Callable[[str, str, Object], None]] = []
        self.unserved: set[str] = set()
        """The kinds that this cluster does not serve."""
        self.unlisted: set[tuple[str, str, str]] = set()
        """The objects that a stale list omits."""
        self.logs: dict[str, str] = {}
        """The last line of the log, by name of the pod."""

    # The actions of users and controllers.

    def put(self, body: Object, *, manager: str = "somebody") -> Object:
        """Create an object, or replace what its manager owns of it, and notify all listeners."""
        key = _key(body)
        stored = self._objects.get(key) or self._objects.setdefault(key, _Stored(self._uid(body)))
        stored.own(manager, {name: part for name, part in body.items() if name != "status"})
        if body.get("status"):
            stored.status = copy.deepcopy(body["status"])
        return self._changed(key, "MODIFIED")

    def edit(self, kind: str, name: str, patch: Object, *, namespace: str = "shop") -> Object:
        key = (kind, namespace, name)
        stored = self._objects[key]
        stored.own("an-editor", _merged(stored.parts.get("an-editor", {}), patch))
        return self._changed(key, "MODIFIED")

    def remove(self, kind: str, name: str, *, namespace: str = "shop", silently: bool = False) -> None:
        """Delete an object and everything that it alone owns, as the garbage collector would."""
        key = (kind, namespace, name)
        uid = self._objects[key].uid
        self._changed(key, "SILENT" if silently else "DELETED")
        del self._objects[key]
        for child, stored in list(self._objects.items()):
            owners = stored.body(child)["metadata"].get("ownerReferences", ())
            left = [owner for owner in owners if owner["uid"] != uid]
            if len(left) == len(owners):
                continue
            if not left:
                self.remove(child[0], child[2], namespace=child[1], silently=silently)
                continue
            for part in stored.parts.values():
                if "ownerReferences" in part.get("metadata", {}):
                    part["metadata"]["ownerReferences"] = left
            self._changed(child, "SILENT" if silently else "MODIFIED")

    def set_status(self, kind: str, name: str, status: Object, *, namespace: str = "shop") -> None:
        self._objects[kind, namespace, name].status = status
        self._changed((kind, namespace, name), "MODIFIED")

    def roll_out(self, name: str, *, namespace: str = "shop") -> None:
        """Report what the Deployment controller and a kubelet report of a successful rollout."""
        generation = self.find("Deployment", name, namespace=namespace)["metadata"]["generation"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 1)
        self.set_status("Deployment", name, {**counts, "observedGeneration": generation}, namespace=namespace)

    def end_pod(self, name: str, *, says: str = "", refuses: str = "", code: int = 2, namespace: str = "shop") -> None:
        """Report what a kubelet reports of a pod that ended, with a report as its log or a termination message."""
        ended = {"exitCode": code if refuses else 0, "reason": "Error" if refuses else "Completed", "message": refuses}
        container = {"name": "probe", "image": "img", "state": {"terminated": ended}}
        self.logs[name] = says
        phase = "Failed" if refuses else "Succeeded"
        self.set_status("Pod", name, {"phase": phase, "containerStatuses": [container]}, namespace=namespace)

    def probes(self, owner: str) -> list[str]:
        """Return the names of the pods that probe something for an object of that name."""
        pods = [body["metadata"] for body in self.all("Pod")]
        return [
            pod["name"]
            for pod in pods
            if pod["labels"].get(names.COMPONENT) == names.PROBE and pod["labels"][names.NAME] == owner
        ]

    def find(self, kind: str, name: str, *, namespace: str = "shop") -> Object:
        key = (kind, namespace, name)
        return self._objects[key].body(key)

    def has(self, kind: str, name: str, *, namespace: str = "shop") -> bool:
        return (kind, namespace, name) in self._objects

    def all(self, kind: str) -> list[Object]:
        return [stored.body(key) for key, stored in sorted(self._objects.items()) if key[0] == kind]

    def snapshot(self) -> dict[str, Any]:
        """Return every object without the values that differ from run to run."""
        return {"/".join(key): stored.essence(key) for key, stored in sorted(self._objects.items())}

    def versions(self) -> dict[str, str]:
        return {"/".join(key): stored.version for key, stored in sorted(self._objects.items())}

    # The requests of the operator.

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Kept], namespace: str | None = None
    ) -> Listing[Kept]:
        kind = _OWN_VIEWS.get(resource.kind, resource.kind.removesuffix("Metadata"))
        self._guard_served(kind)
        items = [
            _seen(resource, stored.body(key))
            for key, stored in sorted(self._objects.items())
            if key[0] == kind
            and key not in self.unlisted
            and (namespace is None or key[1] == namespace)
            and (not resource.field or resource.field == f"metadata.name={key[2]}")
        ]
        ours = [item for item in items if not resource.selector or _is_ours(item)]
        return Listing(items=[keep(item) for item in ours], resource_version=str(next(self._versions)))

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        kind = _OWN_VIEWS.get(resource.kind, resource.kind.removesuffix("Metadata"))
        self.gets.append(f"{kind} {name}")
        if not self.has(kind, name, namespace=namespace):
            raise NotFoundError(f"{kind} {name} not found")
        return _seen(resource, self.find(kind, name, namespace=namespace))

    async def create(self, resource: Resource, body: Object) -> Object:
        if self.has(resource.kind, body["metadata"]["name"], namespace=body["metadata"]["namespace"]):
            raise ConflictError("exists")
        return self._write("create", {**body, "kind": resource.kind}, lambda: self.put(body))

    async def replace(self, resource: Resource, body: Object) -> Object:
        self._guard_version(body)
        return self._write("replace", body, lambda: self.put(body))

    async def apply(self, resource: Resource, body: Object, *, subresource: str = "") -> Object:
        key = _key(body)
        self._guard_served(body["kind"])
        if subresource:
            self._guard_version(body)

            def write_status() -> Object:
                self._objects[key].status = copy.deepcopy(body["status"])
                return self._changed(key, "MODIFIED")

            return self._write(subresource, body, write_status)
        self._guard_apply(key, body["metadata"])

        def write() -> Object:
            stored = self._objects.setdefault(key, _Stored(self._uid(body)))
            before = stored.body(key) if stored.parts else None
            own = copy.deepcopy(body)
            for guard in ("uid", "resourceVersion"):
                own["metadata"].pop(guard, None)
            stored.own(names.FIELD_MANAGER, own)
            if before == stored.body(key):
                return before
            return self._changed(key, "MODIFIED")

        return self._write("apply", body, write)

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        key = (resource.kind, namespace, name)
        if key not in self._objects:
            raise NotFoundError("gone")
        metadata = {k: v for k, v in patch.get("metadata", {}).items() if k not in {"uid", "resourceVersion"}}
        clean = {**patch, "metadata": metadata}

        def write() -> Object:
            stored = self._objects[key]
            stored.own("merge", _merged(stored.parts.get("merge", {}), clean))
            return self._changed(key, "MODIFIED")

        return self._write("merge", {"kind": resource.kind, "metadata": {"name": name}}, write)

    async def merge_unowned(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        return await self.merge(resource, namespace, name, patch)

    async def force_apply(self, resource: Resource, body: Object) -> Object:
        return await self.apply(resource, body)

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, version: str) -> Object:
        def write() -> Object:
            self.remove(resource.kind, name, namespace=namespace)
            return {}

        if self.has(resource.kind, name, namespace=namespace):
            self._write("delete", {"kind": resource.kind, "metadata": {"name": name}}, write)
        return {}

    async def read_log(self, namespace: str, pod: str, *, limit: int) -> str:
        self.gets.append(f"log {pod}")
        if not self.has("Pod", pod, namespace=namespace):
            raise NotFoundError(f"Pod {pod} not found")
        if pod not in self.logs:
            raise InvalidRequestError("the pod has no log")
        return self.logs[pod][:limit]

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        await asyncio.Event().wait()
        yield "BOOKMARK", {}

    def _write(self, verb: str, body: Object, act: Callable[[], Object]) -> Object:
        what = f"{verb} {body['kind']} {body['metadata']['name']}"
        json.dumps(body, ensure_ascii=False).encode()  # as it would be sent
        number = len(self.writes)
        self.writes.append(what)
        self._asked += 1
        if self._asked > self._write_cap:
            raise WriteStorm(f"{self._asked} writes; the last ones: {self.writes[-10:]}")
        if fault := self.fault(number, what):
            raise fault
        answer = act()
        if self.lose(number, what):
            raise TimeoutError("the answer never came")
        return answer

    def _guard_served(self, kind: str) -> None:
        if kind in self.unserved:
            raise NotFoundError("the server could not find the requested resource")

    def _guard_apply(self, key: tuple[str, str, str], metadata: Mapping[str, Any]) -> None:
        stored = self._objects.get(key)
        version = metadata.get("resourceVersion")
        if version == "1" and stored is not None:
            raise ConflictError("exists already")
        if version not in {None, "1"} and (stored is None or stored.version != version):
            raise ConflictError("the object has been modified")
        if "uid" in metadata and stored is None:
            raise ConflictError("gone")
        if "uid" in metadata and stored is not None and stored.uid != metadata["uid"]:
            raise InvalidRequestError("another uid")

    def _guard_version(self, body: Object) -> None:
        stored = self._objects.get(_key(body))
        if stored is None:
            raise NotFoundError("gone")
        if stored.version != body["metadata"]["resourceVersion"]:
            raise ConflictError("the object has been modified")

    def _uid(self, body: Object) -> str:
        return str(body["metadata"].get("uid") or f"u{next(self._uids)}")

    def _changed(self, key: tuple[str, str, str], event: str) -> Object:
        stored = self._objects[key]
        stored.version = str(next(self._versions))
        stored.renew_generation(key)
        body = stored.body(key)
        for listener in self.listeners if event != "SILENT" else ():
            listener(event, key[0], copy.deepcopy(body))
        return body


class _Stored:
    """A stored object: the fields that each manager owns."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.version = "0"
        self.generation = 1
        self.parts: dict[str, Object] = {}
        self.status: Object = {}
        self._spec: str | None = None

    def own(self, manager: str, part: Object) -> None:
        for other in list(self.parts):
            if other != manager:
                self.parts[other] = _without(self.parts[other], part)
        self.parts[manager] = copy.deepcopy(part)

    def renew_generation(self, key: tuple[str, str, str]) -> None:
        spec = json.dumps(self.body(key).get("spec"), sort_keys=True)
        if self._spec is not None and spec != self._spec:
            self.generation += 1
        self._spec = spec

    def body(self, key: tuple[str, str, str]) -> Object:
        whole: Object = {}
        for part in self.parts.values():
            whole = _merged(whole, part)
        whole["metadata"] = {
            **whole.get("metadata", {}),
            "namespace": key[1],
            "name": key[2],
            "uid": self.uid,
            "resourceVersion": self.version,
            "generation": self.generation,
            "creationTimestamp": NOW,
            "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsV1": _fields(part)}
                for manager, part in self.parts.items()
            ],
        }
        return {"kind": key[0], **whole, "status": copy.deepcopy(self.status)}

    def essence(self, key: tuple[str, str, str]) -> Object:
        body = self.body(key)
        for field in ("managedFields", "resourceVersion", "generation", "uid"):
            body["metadata"].pop(field)
        return body


def _key(body: Object) -> tuple[str, str, str]:
    return (body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])


def _is_ours(body: Object) -> bool:
    return bool(body["metadata"].get("labels", {}).get(names.MANAGED_BY) == names.FIELD_MANAGER)


def _seen(resource: Resource, body: Object) -> Object:
    return {"kind": body["kind"], "metadata": body["metadata"]} if resource.metadata_only else copy.deepcopy(body)


def _merged(base: Object, patch: Mapping[str, Any]) -> Object:
    whole = copy.deepcopy(dict(base))
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(whole.get(key), Mapping):
            whole[key] = _merged(whole[key], value)
        else:
            whole[key] = copy.deepcopy(value)
    return whole


def _without(part: Object, taken: Mapping[str, Any]) -> Object:
    """Return what remains of a part when another manager takes these leaves, or removes them with None."""
    left: Object = {}
    for key, value in part.items():
        if key not in taken:
            left[key] = value
        elif isinstance(value, Mapping) and isinstance(taken[key], Mapping) and taken[key]:
            left[key] = _without(dict(value), taken[key])
    return left


def _fields(value: Any, name: str = "") -> Object:
    if isinstance(value, Mapping):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    if isinstance(value, list):
        keys = _KEYS.get(name) or (_port_keys(value) if name == "ports" else ())
        return {
            "k:" + json.dumps({key: item[key] for key in keys if key in item}): _fields(item) for item in value if keys
        }
    return {}


def _port_keys(ports: list[Any]) -> tuple[str, ...]:
    if ports and "containerPort" in ports[0]:
        return ("containerPort", "protocol")
    return ("port", "protocol")


class World:
    """The operator on the in-memory API, with running workers, events, and short delays in real time."""

    def __init__(self, api: MemoryApi, settings: Settings) -> None:
        self.api = api
        self.moment = parse_timestamp(NOW)
        self._rung: dict[Key, tuple[asyncio.TimerHandle, int]] = {}
        self.seconds = 0.0
        """The clock that schedules the next reconciles."""
        minted = itertools.count(1)
        self.manager = build_manager(
            api,
            settings=settings,
            metrics=OperatorMetrics(CollectorRegistry()),
            clocks=Clocks(
                now=lambda: format_timestamp(self.moment),
                monotonic=lambda: self.seconds,
                mint=lambda: f"token-{next(minted)}".ljust(43, "x"),
                new_secret=lambda: base64.urlsafe_b64encode(self.moment.to_bytes(32, "big")).decode(),
            ),
            warning_seconds=0.2,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def tell_events(self) -> None:
        """Start to write Events, as a leading process does."""
        self._tasks.append(asyncio.create_task(self.manager.event_recorder.run()))

    async def start(self) -> None:
        self.api.listeners.append(self._hear)
        await self.manager.cache_sync.synchronise()
        await write_card_keys(self.manager)
        self._tasks = [asyncio.create_task(worker) for worker in workers(self.manager)]

    async def stop(self) -> None:
        self.api.listeners.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self, event: str, kind: str, body: Object) -> None:
        resource = RESOURCES.get(kind)
        if resource is not None and (not resource.selector or _is_ours(body)):
            self.manager.cache_sync.informer.event(kind, event, body)
        if (body["metadata"]["namespace"], body["metadata"]["name"]) == self.manager.settings.card_keys_place:
            own = {"Secret": names.CARD_KEYS, "ConfigMap": names.KEY_SET}[kind]
            self.manager.cache_sync.informer.event(own, event, body)
        if f"{kind}Metadata" in RESOURCES:
            metadata_only = {"kind": kind, "metadata": body["metadata"]}
            self.manager.cache_sync.informer.event(f"{kind}Metadata", event, metadata_only)

    def check(self) -> None:
        """Fail with a message if a worker ended. The write limit of the in-memory API ends a worker that loops."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def settle(self, *, seconds: float = 8.0) -> None:
        """Wait until no write happens and no work is pending for longer than the shortest retry delay."""
        quiet = 0
        count = -1
        for _ in range(int(seconds / 0.02)):
            await asyncio.sleep(0.02)
            self.check()
            same = count == len(self.api.writes) and self.manager.queue.depth == 0
            quiet = quiet + 1 if same else 0
            count = len(self.api.writes)
            if quiet > 3 and self.soonest() > seconds:
                return
        pytest.fail(f"never settles; last writes: {self.api.writes[-10:]}")

    def soonest(self) -> float:
        """Return the seconds until the next scheduled reconcile, or infinity."""
        now = asyncio.get_running_loop().time()
        return min((timer.when() - now for timer in self.manager.queue._timers.values()), default=math.inf)

    def _due(self) -> dict[Key, int]:
        """Return when each key is due, by the operator's clock. A timer knows only the real one."""
        now = asyncio.get_running_loop().time()
        for key, timer in self.manager.queue._timers.items():
            if self._rung.get(key, (None, 0))[0] is not timer:
                self._rung[key] = (timer, self.moment + math.ceil(timer.when() - now))
        return {key: self._rung[key][1] for key in self.manager.queue._timers}

    async def later(self, seconds: float) -> None:
        """Advance the clock, and run each key that is due in that time at its moment."""
        end = self.moment + int(seconds)
        while (due := self._due()) and min(due.values()) <= end:
            self.moment = max(self.moment, min(due.values()))
            for key in [key for key, at in due.items() if at <= self.moment]:
                self.manager.queue.add(key)
            await self.settle()
        self.moment = end

    async def until(self, look: Callable[[], bool], *, seconds: float = 5.0) -> None:
        for _ in range(int(seconds / 0.02)):
            if look():
                return
            await asyncio.sleep(0.02)
            self.check()
        pytest.fail("the condition was never met")

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message by type."""
        found = self.api.find(kind, name)["status"].get("conditions", ())
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"]) for condition in found
        }


@pytest.fixture
def settings() -> Settings:
    return Settings(
        operator=PodSelector(namespace="fleetwright-system", labels={"app.kubernetes.io/name": "fleetwright-operator"}),
        monitoring=PodSelector(namespace="monitoring", labels={"app": "prometheus"}),
    )


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
async def world(api: MemoryApi, settings: Settings) -> AsyncIterator[World]:
    world = World(api, settings)
    yield world
    await world.stop()


@pytest.fixture
def make_world(settings: Settings) -> Callable[..., World]:
    return lambda api, other=settings: World(api, other)


@pytest.fixture
def golden() -> Iterator[Callable[[str, list[Object]], None]]:
    """Compare manifests with golden/<name>.yaml. FLEETWRIGHT_WRITE_GOLDEN=1 writes the files again."""

    def compare(name: str, manifests: list[Object]) -> None:
        text = yaml.safe_dump_all(manifests, sort_keys=False, width=120)
        file = GOLDEN / f"{name}.yaml"
        if os.environ.get("FLEETWRIGHT_WRITE_GOLDEN"):
            file.write_text(text)
        assert list(yaml.safe_load_all(file.read_text())) == manifests
        assert file.read_text() == text

    return compare


@pytest.fixture
def objects() -> Any:
    """The factories of sample objects."""

    class Objects:
        agent = staticmethod(agent)
        skill = staticmethod(skill)
        server = staticmethod(server)
        secret = staticmethod(secret)
        custom = staticmethod(custom)

    return Objects
