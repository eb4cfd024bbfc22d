"""Walks through the properties of the three kinds on a control plane, and compares with objects created afresh.

The object that was walked and one that was created with the same spec must have the same children. What cannot
be accepted or resolved keeps what runs, so there the conditions alone must be the same. Where the API server
holds on to something (a volume's class), a condition must say so, and taking the edit back must heal it.
"""

import asyncio
import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import yaml
from e2e.cluster.paths import CHECKOUT
from e2e.faults import flows
from e2e.faults.reference import difference
from e2e.plane.client import Client, Object, Refusal, path_of
from e2e.plane.essence import Essence, Reader
from e2e.plane.installation import make_namespace
from e2e.plane.mirror import Mirror
from e2e.walk.schema import Edit, Path, properties, values

_SECONDS = 60.0
_HELD_SECONDS = 8.0
"""After which an object that says that it cannot go on will not."""
_AT_ONCE = 12
_STAGES = {"Accepted", "ReferencesResolved", "Programmed"}
_BLOCKED = (("Accepted", "False"), ("ReferencesResolved", "False"))
Spec = dict[str, Any]
NAMES = {"Agent": "poet", "Skill": "haiku", "McpServer": "tools"}
BASES: Mapping[str, tuple[Spec, ...]] = {
    "Agent": (
        {"instructions": "Help.", "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"}},
        {"instructions": "Help.", **flows.USES, "skills": [{"name": "haiku"}]},
        {
            "instructionsFrom": {"configMapKeyRef": {"name": "haiku-files", "key": "SKILL.md"}},
            "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"},
            "allowedCallers": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"walked": "here"}}}},
        },
        {
            "instructionsFrom": {"secretKeyRef": {"name": "key", "key": "api-key"}},
            "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"},
        },
    ),
    "Skill": (
        flows.skill("haiku", "", "Three lines.")["spec"],
        {"source": {"configMap": {"name": "haiku-files"}}},
        {"source": {"git": {"url": "https://git.example.com/team/skills.git", "commit": "0" * 40}}},
        {"source": {"image": {"reference": f"registry.example.com/skills/haiku@sha256:{'0' * 64}"}}},
    ),
    "McpServer": (
        {"workload": {"image": "docker.io/example/tools:1"}},
        {"remote": {"url": "https://tools.example.com/mcp"}},
    ),
}
"""Where walks begin, and whole specs that a random walk may jump to."""


@dataclass
class Ground:
    """What every walk works with, and what is found."""

    client: Client
    mirror: Mirror
    edits: dict[tuple[str, int], list[Edit]] = field(default_factory=dict)
    """By kind and base: those that the API server takes there."""
    walked: int = 0
    refused: int = 0
    held: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    """Properties for which no value was taken."""
    spaces: int = 0

    async def space(self, *, without: str = "") -> str:
        """A new namespace with what specs refer to, but for the object of that kind."""
        self.spaces += 1
        name = f"walked-space-{self.spaces:05}"
        await make_namespace(self.client, name)
        bodies = (
            flows.key(name, "one"),
            flows.files("haiku", name, "Three lines."),
            flows.agent("helper", name),
            flows.skill("haiku", name, "Three lines."),
            flows.server("tools", name),
        )
        for body in bodies:
            if body["kind"] != without or without == "Agent":
                await self.client.apply(body)
        return name


async def learn(ground: Ground) -> None:
    """Asks the API server, for every property of every kind, which values it takes."""
    space = await ground.space()
    for kind, bases in BASES.items():
        schema = _schema(kind)
        for place, base in enumerate(bases):
            ground.edits[kind, place] = await _accepted(ground, space, kind, base, schema)
        taken = {edit.path for place in range(len(bases)) for edit in ground.edits[kind, place]}
        ground.uncovered += [
            f"{kind}.{'.'.join(path)}"
            for path, _ in properties(schema)
            if not any(edited[: len(path)] == path for edited in taken)
        ]


async def walk_properties(ground: Ground, *, every: int = 1, seed: int = 0) -> None:
    """Set, change, unset and revert, one property after the other, from the first base that has it."""
    chosen: dict[tuple[str, Path], tuple[int, list[Edit]]] = {}
    for (kind, place), edits in ground.edits.items():
        for edit in edits:
            found = chosen.setdefault((kind, edit.path), (place, []))
            if found[0] == place:
                found[1].append(edit)
    keys = sorted(chosen)
    random.Random(seed).shuffle(keys)
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(
        *(_property(ground, gate, kind, path, *chosen[kind, path]) for kind, path in keys[::every])
    )  # fmt: skip


async def walk_randomly(ground: Ground, *, seed: int, walks: int, length: int = 6) -> None:
    """Sequences of edits, jumps to another base and edits taken back; compared at every other step and at the end."""
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_random(ground, gate, seed + number, length) for number in range(walks)))


async def _property(
    ground: Ground, gate: asyncio.Semaphore, kind: str, path: Path, place: int, edits: Sequence[Edit]
) -> None:
    base = BASES[kind][place]
    chosen = [edits[0], edits[-1]] if len(edits) > 1 else [edits[0]]
    async with gate:
        walker = Walker(ground, kind, base)
        await walker.begin()
        for edit in (*chosen, Edit(path, None)):
            await walker.take(edit.applied(base), str(edit))
        await walker.take(base, "back to the base")


async def _random(ground: Ground, gate: asyncio.Semaphore, seed: int, length: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(sorted(BASES))
    async with gate:
        walker = Walker(ground, kind, BASES[kind][0], label=f"seed {seed}")
        await walker.begin()
        place, spec = 0, copy.deepcopy(BASES[kind][0])
        for step in range(length):
            if chance.random() < 0.2:
                place = chance.randrange(len(BASES[kind]))
                spec, what = copy.deepcopy(BASES[kind][place]), f"base {place}"
            else:
                edit = chance.choice(ground.edits[kind, place])
                edit = Edit(edit.path, None) if chance.random() < 0.25 else edit
                spec, what = edit.applied(spec), str(edit)
            if not await walker.take(spec, what, compare=step % 2 == 1 or step == length - 1):
                spec = copy.deepcopy(walker.spec)


class Walker:
    """One object in a namespace of its own."""

    def __init__(self, ground: Ground, kind: str, spec: Spec, *, label: str = "") -> None:
        self._ground = ground
        self._kind = kind
        self._label = label
        self._trail: list[str] = []
        self._reader = Reader(generations=False)
        self._space = ""
        self.spec = copy.deepcopy(spec)

    async def begin(self) -> None:
        self._space = await self._ground.space(without=self._kind)
        await self._write(self._space, self.spec)

    async def take(self, spec: Spec, what: str, *, compare: bool = True) -> bool:
        """Whether the API server took the edit. If it did, the outcome is judged."""
        before = self.spec
        try:
            await self._write(self._space, spec)
        except Refusal as refusal:
            if refusal.status not in {400, 422}:
                raise
            self._ground.refused += 1
            return False
        self.spec = copy.deepcopy(spec)
        self._trail.append(what)
        self._ground.walked += 1
        if compare and (problem := await self._unlike_fresh()):
            await self._held(before, problem)
        return True

    async def _held(self, before: Spec, problem: str) -> None:
        """An edit that cannot be carried out must be told of, and taking it back must heal the object."""
        where = f"{self._kind} after {' → '.join(self._trail)} ({self._label or self._space})"
        reason = self._stopped()
        if not reason:
            self._ground.problems.append(f"{where}: {problem}")
            return
        self._ground.held.append(f"{where}: {reason}")
        try:
            await self._write(self._space, before)
        except Refusal:
            return  # the API server does not take it back: the condition stays, and says what to do
        self.spec = copy.deepcopy(before)
        if problem := await self._unlike_fresh():
            self._ground.problems.append(f"{where}, taken back: {problem}")

    async def _unlike_fresh(self) -> str:
        fresh = await self._ground.space(without=self._kind)
        await self._write(fresh, self.spec)

        def alike() -> bool:
            if not self._known(fresh) or not self._known(self._space):
                return False
            stages, here = self._stages(fresh), self._stages(self._space)
            if any(blocked in stages for blocked in _BLOCKED):
                return [stage for stage in stages if stage in _BLOCKED] == [
                    stage for stage in here if stage in _BLOCKED
                ]
            return stages == here and self._read(fresh) == self._read(self._space)

        def stopped() -> bool:
            return self._known(self._space) and bool(self._stopped())

        until = self._ground.mirror.until
        if await until(self._space, lambda: alike() or stopped(), seconds=_SECONDS, pause=0.1) and await until(
            self._space, alike, seconds=_HELD_SECONDS if stopped() else 0.0, pause=0.1
        ):
            return ""
        return f"unlike a fresh one in {fresh}:\n{difference(self._read(fresh), self._read(self._space))}"

    async def _write(self, space: str, spec: Spec) -> Object:
        """The whole spec: an apply would leave an empty list behind that it once made."""
        name, client = NAMES[self._kind], self._ground.client
        metadata = {"name": name, "namespace": space}
        body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": self._kind, "metadata": metadata, "spec": spec}
        while True:
            found = await client.find(self._kind, space, name)
            if found is None:
                return await client.request("POST", path_of(self._kind, space), body)
            body["metadata"] = found["metadata"]
            try:
                return await client.request("PUT", path_of(self._kind, space, name), body)
            except Refusal as refusal:
                if refusal.status != 409:  # the operator wrote its finalizer or status meanwhile
                    raise

    def _known(self, space: str) -> bool:
        """Whether the operator has judged what stands there now."""
        own = [body for (kind, _), body in self._ground.mirror.objects(space).items() if kind in NAMES]
        return all(
            body.get("status", {}).get("observedGeneration") == body["metadata"]["generation"] for body in own
        ) and any(body["kind"] == self._kind and body["spec"] == self.spec for body in own)

    def _read(self, space: str) -> Essence:
        objects = self._ground.mirror.objects(space)
        mounted = yaml.safe_dump([body["spec"] for (kind, _), body in objects.items() if kind == "Deployment"])
        stated = yaml.safe_dump([body.get("status", {}) for (kind, _), body in objects.items() if kind in NAMES])
        # Revisions of the past are what a path is made of, and so is memory, which outlives what mounted it.
        current = [
            body for (kind, name), body in objects.items()
            if kind not in {"ConfigMap", "PersistentVolumeClaim"} or name in mounted or name in stated
        ]  # fmt: skip
        return self._reader.read(current, namespace=space)

    def _stages(self, space: str) -> list[tuple[str, str]]:
        return [(condition["type"], condition["status"]) for condition in self._conditions(space)]

    def _conditions(self, space: str) -> list[Object]:
        body = self._ground.mirror.find(self._kind, space, NAMES[self._kind]) or {}
        return list(body.get("status", {}).get("conditions", ()))

    def _stopped(self) -> str:
        for condition in self._conditions(self._space):
            if condition["type"] in _STAGES and condition["status"] == "False":
                return f"{condition['reason']}: {condition['message']}"
        return ""


def _schema(kind: str) -> Mapping[str, Any]:
    body = yaml.safe_load((CHECKOUT / "crds" / f"{kind.lower()}.yaml").read_text())
    spec: Mapping[str, Any] = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


async def _accepted(ground: Ground, space: str, kind: str, base: Spec, schema: Mapping[str, Any]) -> list[Edit]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def taken(edit: Edit) -> bool:
        metadata = {"name": f"{NAMES[kind]}-tried", "namespace": space}
        body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "metadata": metadata}
        try:
            async with gate:
                query = "?dryRun=All&fieldValidation=Strict"
                await ground.client.request("POST", path_of(kind, space) + query, {**body, "spec": edit.applied(base)})
        except Refusal as refusal:
            if refusal.status not in {400, 422}:
                raise
            return False
        return True

    good: list[Edit] = []
    by_depth = sorted(properties(schema), key=lambda found: len(found[0]))
    for _, level in groupby(by_depth, key=lambda found: len(found[0])):
        tried = [
            Edit(path, value, tuple(edit for edit in _first(good) if edit.path == path[: len(edit.path)]))
            for path, below in level
            for value in values(below, path)
        ]
        differing = [edit for edit in tried if _differs(base, edit)]
        answers = await asyncio.gather(*(taken(edit) for edit in differing))
        good += [edit for edit, well in zip(differing, answers, strict=True) if well]
    return good


def _first(edits: Sequence[Edit]) -> list[Edit]:
    """One for each path, the outer before the inner."""
    found: dict[Path, Edit] = {}
    for edit in edits:
        if isinstance(edit.value, dict):
            found.setdefault(edit.path, edit)
    return list(found.values())


def _differs(base: Spec, edit: Edit) -> bool:
    try:
        return edit.applied(base) != base
    except (AttributeError, TypeError):
        return False
