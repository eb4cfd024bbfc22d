"""A walk of one object, which is compared with a fresh object that has the same spec.

Both must have the same children. If a spec is rejected or unresolved, the running children stay, so only the conditions
must be equal. If a child cannot follow a change (such as the class of a volume), a condition must report this, and
reverting the edit must heal the object.
"""

import copy

import yaml
from e2e.control_plane.client import Object, Refusal
from e2e.control_plane.normalised_state import NormalisedState, Reader
from e2e.faults.reference import difference
from e2e.walk.bases import NAMES, Spec
from e2e.walk.walk_context import WalkContext
from tests.support.machine import ceiling, machine_factor

from fleetwright_api.names import workspace

_SETTLING_SECONDS = 6.0
"""The promised time in which the objects settle after an edit."""
_HELD_SECONDS = 8.0
"""After this time, an object that reports a problem is not expected to recover."""
_STAGES = {"Accepted", "ReferencesResolved", "Programmed"}
_BLOCKED = (("Accepted", "False"), ("ReferencesResolved", "False"))


class Walker:
    """The walk of one object in a separate namespace."""

    def __init__(self, context: WalkContext, kind: str, spec: Spec, *, label: str = "") -> None:
        self._context = context
        self._kind = kind
        self._label = label
        self._trail: list[str] = []
        self._reader = Reader(generations=())
        self._space = ""
        self.spec = copy.deepcopy(spec)

    async def begin(self) -> None:
        self._space = await self._context.space(without=self._kind)
        await self._context.put(self._kind, self._space, self.spec)

    async def take(self, spec: Spec, what: str, *, compare: bool = True) -> bool:
        """Return True if the API server accepted the edit. In that case the outcome is checked."""
        before = self.spec
        try:
            await self._context.put(self._kind, self._space, spec)
        except Refusal as refusal:
            if refusal.status not in {400, 422}:
                raise
            self._context.refused += 1
            return False
        self.spec = copy.deepcopy(spec)
        self._trail.append(what)
        self._context.walked += 1
        if compare and (problem := await self._unlike_fresh()):
            await self._held(before, problem)
        return True

    async def _held(self, before: Spec, problem: str) -> None:
        """Check that an edit that cannot take effect is reported, and that reverting it heals the object."""
        where = f"{self._kind} after {' → '.join(self._trail)} ({self._label or self._space})"
        reason = self._stopped()
        if not reason:
            self._context.problems.append(f"{where}: {problem}")
            return
        self._context.held.append(f"{where}: {reason}")
        try:
            await self._context.put(self._kind, self._space, before)
        except Refusal:
            return  # the API server refuses the revert: the condition stays, and describes the remedy
        self.spec = copy.deepcopy(before)
        # The object may still report the problem when the operator has just begun to heal it.
        if problem := await self._unlike_fresh(held_seconds=ceiling(_SETTLING_SECONDS)):
            self._context.problems.append(f"{where}, taken back: {problem}")

    async def _unlike_fresh(self, *, held_seconds: float | None = None) -> str:
        """Return "" if the object becomes equal to a fresh one in time, otherwise the difference.

        Args: `held_seconds` is the time for which an object that reports a problem may still recover.
        """
        fresh = await self._context.fresh(self._kind, self.spec)

        def alike() -> bool:
            return self._alike(fresh)

        def stopped() -> bool:
            return self._known(self._space) and bool(self._stopped())

        until = self._context.cache.until
        rests = await until(self._space, lambda: alike() or stopped(), seconds=ceiling(_SETTLING_SECONDS), pause=0.1)
        held_seconds = _HELD_SECONDS * machine_factor() if held_seconds is None else held_seconds
        if rests and await until(self._space, alike, seconds=held_seconds if stopped() else 0.0, pause=0.1):
            return ""
        return f"unlike a fresh one in {fresh}:\n{difference(self._read(fresh), self._read(self._space))}"

    def _alike(self, fresh: str) -> bool:
        if not self._known(fresh) or not self._known(self._space):
            return False
        stages, here = self._stages(fresh), self._stages(self._space)
        if any(blocked in stages for blocked in _BLOCKED):
            return [stage for stage in stages if stage in _BLOCKED] == [stage for stage in here if stage in _BLOCKED]
        return stages == here and self._read(fresh) == self._read(self._space)

    def _known(self, space: str) -> bool:
        """Return True if the operator has observed the current generation of every object."""
        own = [body for (kind, _), body in self._context.cache.objects(space).items() if kind in NAMES]
        return all(
            body.get("status", {}).get("observedGeneration") == body["metadata"]["generation"] for body in own
        ) and any(body["kind"] == self._kind and body["spec"] == self.spec for body in own)

    def _read(self, space: str) -> NormalisedState:
        objects = self._context.cache.objects(space)
        mounted = yaml.safe_dump([body["spec"] for (kind, _), body in objects.items() if kind == "Deployment"])
        stated = yaml.safe_dump([body.get("status", {}) for (kind, _), body in objects.items() if kind in NAMES])
        # Old revisions differ because they depend on the history. So does memory, which outlives the Deployment that
        # mounted it.
        current = [
            _without_class(body) for (kind, name), body in objects.items()
            if kind not in {"ConfigMap", "PersistentVolumeClaim"} or name in mounted or name in stated
        ]  # fmt: skip
        if self._is_cloning(space):
            # A workspace that runs when a source is added keeps its pod until the clone has ended, and a fresh one has
            # none yet. Nothing ends the clone here, because there is no kubelet.
            current = [body for body in current if not _is_workspace(body)]
        return self._reader.read(current, namespace=space)

    def _is_cloning(self, space: str) -> bool:
        return any(condition["reason"] == "Cloning" for condition in self._conditions(space))

    def _stages(self, space: str) -> list[tuple[str, str]]:
        return [(condition["type"], condition["status"]) for condition in self._conditions(space)]

    def _conditions(self, space: str) -> list[Object]:
        body = self._context.cache.find(self._kind, space, NAMES[self._kind]) or {}
        return list(body.get("status", {}).get("conditions", ()))

    def _stopped(self) -> str:
        for condition in self._conditions(self._space):
            is_stage = condition["type"] in _STAGES and condition["status"] == "False"
            # A volume that exists cannot follow every change.
            if is_stage or condition["type"] == "StorageDiffers":
                return f"{condition['reason']}: {condition['message']}"
        return ""


def _is_workspace(body: Object) -> bool:
    return bool(body["kind"] == "Deployment" and body["metadata"]["name"] == workspace(NAMES["Agent"]))


def _without_class(body: Object) -> Object:
    """Return a volume claim without its class, which it keeps from the first spec that named one."""
    if body["kind"] != "PersistentVolumeClaim":
        return body
    return {**body, "spec": {key: value for key, value in body["spec"].items() if key != "storageClassName"}}
