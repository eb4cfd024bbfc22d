"""The sweep of a key ring of an installation: its keys become due again and again, each time with another fault.

There are two rings: the keys that sign cards, and the keys of the gateway's tokens. The keys belong to the installation
and not to a namespace. Their cases therefore run one after the other, with one agent that uses the keys.
"""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from e2e.control_plane.client import Object
from e2e.control_plane.installation import install_release, make_namespace
from e2e.control_plane.normalised_state import NormalisedState, Reader
from e2e.faults import flows
from e2e.faults.cases import Findings, Verdict, sampled
from e2e.faults.operator_group import OperatorGroup, Place, Scene, scene_of
from e2e.faults.plan import ERRORS, KILLS, Case
from e2e.faults.reference import difference
from e2e.faults.settling import settled
from tests.support.machine import ceiling

from fleetwright_api import names
from fleetwright_operator.settings import Settings

_SETTLING_SECONDS = 6.0
"""The promised time in which the objects settle after an edit."""


@dataclass(frozen=True)
class KeyRing:
    """The Secret of a ring, and the age at which its newest key is due."""

    step: str
    secret: str
    life: int
    gateway: bool = False


CARDS = KeyRing("card keys are due", Settings().card_keys_name, Settings().card_rotation.ttl)
GATEWAY = KeyRing("gateway keys are due", "fleetwright-gateway-keys", 30 * 24 * 3600, gateway=True)


async def keys_swept(place: Place, name: str, environment: Mapping[str, str], keys: KeyRing, *, every: int) -> Findings:
    """Run every n-th case in a separate installation."""
    async with scene_of(place, name) as scene:
        space = f"{name}-case-000"
        await make_namespace(scene.client, space)
        await scene.client.apply(flows.agent("poet", space))
        installation = await install_release(scene.client, f"system-{name}", gateway=keys.gateway)
        async with OperatorGroup(scene, name, installation, environment) as operators:
            ring = _Ring(scene, space, installation.namespace, keys)
            usual = await _usual(ring)
            cases = [(where, case) for where, points in usual.points.items() for case in points]
            for where, case in sampled(cases, every=every):
                scene.findings.verdicts.append(await _judged(ring, operators, usual, where, case))
        return scene.findings


@dataclass(frozen=True)
class _Usual:
    """A rotation without faults."""

    state: NormalisedState
    points: Mapping[str, list[Case]]
    """For each namespace, every fault of every write."""
    writes: int


class _Ring:
    """The keys of the installation `system`, and the agent in `space` that uses them."""

    def __init__(self, scene: Scene, space: str, system: str, keys: KeyRing) -> None:
        self.keys = keys
        self.scene = scene
        self.space = space
        self.system = system
        self._reader = Reader()

    async def rests(self) -> bool:
        objects = self.scene.cache.objects(self.space)
        return await self.scene.cache.until(
            self.space, lambda: bool(objects) and not settled(objects.values()), seconds=ceiling(_SETTLING_SECONDS)
        )

    async def age(self) -> set[str]:
        """Make every key older by the lifetime of a key. Return the ids of the keys before the rotation."""
        secret = await self.scene.client.find("Secret", self.system, self.keys.secret)
        assert secret is not None
        keys = json.loads(base64.b64decode(secret["data"][names.RING_KEY]))["keys"]
        aged = json.dumps({"keys": [{**key, "iat": key["iat"] - self.keys.life} for key in keys]})
        data = {names.RING_KEY: base64.b64encode(aged.encode()).decode()}
        await self.scene.client.merge("Secret", self.system, self.keys.secret, {"data": data})
        return {key["kid"] for key in keys}

    async def turned(self, before: set[str], wanted: NormalisedState | None = None) -> str:
        """Wait until a new key and the previous one are in use and the state is as `wanted`.

        Return the remaining problem, or "".
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ceiling(_SETTLING_SECONDS)
        while problem := await self._problem(before, wanted):
            if loop.time() > deadline:
                return f"after {ceiling(_SETTLING_SECONDS):.0f} s: {problem}"
            await asyncio.sleep(0.1)
        return ""

    def state(self) -> NormalisedState:
        return self._reader.read(self.scene.cache.objects(self.space).values(), namespace=self.space)

    async def _problem(self, before: set[str], wanted: NormalisedState | None) -> str:
        objects = self.scene.cache.objects(self.space)
        if unrest := settled(objects.values()):
            return unrest
        used = self._read_trusted_keys(objects) if self.keys.gateway else self._read_signing_keys(objects)
        if len(used) != 2 or len(used & before) != 1:
            return f"the keys {used} are in use; expected one of {before} and one new key"
        if not self.keys.gateway:
            published = await self.scene.client.find("ConfigMap", self.system, self.keys.secret)
            if used != _ids(published):
                return f"the keys {used} sign, but {_ids(published)} are published"
        found = self.state()
        return "" if wanted is None or found == wanted else difference(wanted, found)

    @staticmethod
    def _read_signing_keys(objects: Mapping[tuple[str, str], Object]) -> set[str]:
        """Return the ids of the keys that sign the agent's card."""
        return set(objects["Agent", "poet"]["status"]["card"]["signedBy"])

    @staticmethod
    def _read_trusted_keys(objects: Mapping[tuple[str, str], Object]) -> set[str]:
        """Return the ids of the gateway's keys that the agent trusts."""
        file = objects["Secret", names.agent_auth("poet")]["data"][names.GATEWAY_KEY]
        return {key["kid"] for key in json.loads(base64.b64decode(file))["keys"]}


def _ids(key_set: Object | None) -> set[str]:
    if key_set is None:
        return set()
    return {key["kid"] for key in json.loads(key_set["data"][names.KEY_SET_KEY])["keys"]}


async def _usual(ring: _Ring) -> _Usual:
    """Record two rotations, after a first one that creates the second key.

    Only writes that occur in both become cases.
    """
    plan, seen = ring.scene.plan, []
    ring.scene.open_cases.begin(ring.space, f"{ring.keys.step}, without faults")
    if not await ring.rests():
        raise TimeoutError(f"{ring.keys.step}: the agent never comes to rest")
    for _ in range(3):
        for place in (ring.system, ring.space):
            plan.begin(place)
        if problem := await ring.turned(await ring.age()):
            raise TimeoutError(f"{ring.keys.step}: {problem}")
        await asyncio.sleep(1.5)
        seen.append({place: Counter(plan.writes[place]) for place in (ring.system, ring.space)})
    ring.scene.open_cases.end(ring.space)
    common = {place: seen[1][place] & seen[2][place] for place in (ring.system, ring.space)}
    points = {
        place: [
            Case(fault, (write, number))
            for write in sorted(counted)
            for number in range(1, counted[write] + 1)
            for fault in (*ERRORS, *KILLS)
        ]
        for place, counted in common.items()
    }
    return _Usual(ring.state(), points, max(sum(map(Counter.total, turn.values())) for turn in seen))


async def _judged(ring: _Ring, operators: OperatorGroup, usual: _Usual, where: str, case: Case) -> Verdict:
    plan = ring.scene.plan
    ring.scene.open_cases.begin(where, ring.keys.step, [case])
    for place in (ring.system, ring.space):
        plan.begin(place, [case] if place == where else ())
    before = await ring.age()
    killed = await operators.kill_where_due({where: [case]}) if case.fault in KILLS else 0
    problem = await ring.turned(before, usual.state)
    writes = plan.total_writes(ring.system) + plan.total_writes(ring.space)
    if not problem and killed and writes > (1 + killed) * usual.writes:
        problem = f"{writes} writes, and {usual.writes} without {killed} kills"
    ring.scene.open_cases.end(where)
    return Verdict(ring.keys.step, case, where, case in plan.struck[where], problem)
