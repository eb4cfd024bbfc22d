"""Take namespaces through the steps, and compare them with the reference after each step."""

import asyncio

from e2e.control_plane.installation import make_namespace
from e2e.control_plane.normalised_state import NormalisedState, Reader
from e2e.faults.cases import Chain, Verdict
from e2e.faults.operator_group import Scene
from e2e.faults.reference import References, StepReference, difference, loose_reader
from e2e.faults.settling import settled
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import PROMISED_SECONDS

_LATE_SECONDS = 5.0
"""The time in which a remaining fault may still occur after the state equals the reference.

Slow machines get longer.
"""
_STAYING_SECONDS = 0.5
"""The promised time in which the watch shows that a namespace is still in the state that it had reached."""


class Verifier:
    def __init__(self, scene: Scene, references: References, *, strict: bool = True) -> None:
        """Args: `strict` compares every edit. An operator that sees objects in another order may make one more edit."""
        self._scene = scene
        self._references = references
        self._strict = strict
        self._reader = Reader() if strict else loose_reader()
        self._arrived: dict[str, StepReference] = {}
        """The last reference state that each namespace has reached."""

    async def prepared(self, chain: Chain) -> bool:
        """Bring a namespace into the state before the first step."""
        scene, step = self._scene, self._references.prepared.step
        scene.open_cases.begin(chain.space, step.name)
        await make_namespace(scene.client, chain.space)
        scene.plan.begin(chain.space)
        await step.act(scene.client, chain.space)
        if problem := await self._difference(chain.space, self._references.prepared):
            scene.findings.complaints.append(f"{chain.space} could not be prepared: {problem}")
        scene.open_cases.end(chain.space)
        return not problem

    async def act(self, chain: Chain, place: int) -> None:
        scene, step, cases = self._scene, self._references.steps[place].step, chain.steps[place]
        scene.open_cases.begin(chain.space, step.name, cases)
        scene.plan.begin(chain.space, cases)
        await step.act(scene.client, chain.space)

    async def judged(self, chain: Chain, place: int, *, killed: int = 0) -> bool:
        """Return True if the step ended as in the reference, and record a verdict for each of its cases.

        After n kills, the operator may have made each write up to n more times.
        """
        scene, reference, cases = self._scene, self._references.steps[place], chain.steps[place]
        problem = await self._difference(chain.space, reference)
        if not problem and not await self._all_struck(chain):
            # A case that the reference met by chance need not occur. If it occurs now, the operator must repair it.
            problem = await self._difference(chain.space, reference)
        if not problem and killed:
            writes = scene.plan.writes[chain.space]
            if writes.total() > (1 + killed) * reference.most_writes:
                problem = f"{writes.total()} writes, and {reference.most_writes} without {killed} kills: {dict(writes)}"
        struck = scene.plan.struck[chain.space]
        findings, step = scene.findings, reference.step.name
        findings.verdicts += [Verdict(step, case, chain.space, case in struck, problem) for case in cases]
        if problem and not cases:
            findings.complaints.append(f"{chain.space}: {step} without a fault: {problem}")
        scene.open_cases.end(chain.space)
        return not problem

    async def look_again(self) -> None:
        """Check that no namespace has left the state that it had reached."""
        await asyncio.gather(*(self._stayed(space, reference) for space, reference in list(self._arrived.items())))

    async def _stayed(self, space: str, reference: StepReference) -> None:
        if problem := await self._difference(space, reference, promised=_STAYING_SECONDS):
            step = reference.step.name
            self._scene.findings.complaints.append(f"{space} converged after {step!r} and did not stay: {problem}")

    async def _all_struck(self, chain: Chain) -> bool:
        plan, watch_cache = self._scene.plan, self._scene.cache
        late = _LATE_SECONDS * machine_factor()
        return await watch_cache.until(chain.space, lambda: not plan.due(chain.space), seconds=late)

    async def _difference(self, space: str, reference: StepReference, *, promised: float = PROMISED_SECONDS) -> str:
        """Return "" if the namespace reaches the state of the reference in time, otherwise the difference."""
        wanted = reference.state if self._strict else reference.loose_state
        objects = self._scene.cache.objects(space)
        self._arrived.pop(space, None)

        def now() -> NormalisedState:
            return self._reader.read(objects.values(), namespace=space)

        def alike() -> bool:
            # A state that is not settled differs for certain, and this check is cheap.
            return not settled(objects.values()) and now() == wanted

        limit = ceiling(promised)
        if await self._scene.cache.until(space, alike, seconds=limit, pause=0.25):
            if reference.step.lasts:
                self._arrived[space] = reference
            return ""
        return f"differs from the reference after {limit:.0f} s:\n{difference(wanted, now())}"
