"""Asks the API server, for every property of every kind, which of the candidate values it accepts."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from e2e.control_plane.client import Refusal, path_of
from e2e.walk.bases import BASES, NAMES, Spec, schema_of
from e2e.walk.edits import ITEM, Edit, Path, at
from e2e.walk.schema import properties, values
from e2e.walk.walk_context import WalkContext

_AT_ONCE = 12
_OPENINGS = 3
"""The number of tried ways to create each object or list that contains a property."""


async def learn(context: WalkContext) -> None:
    """Find the accepted edits of every base, and the properties for which no value is accepted."""
    space = await context.space()
    gate = asyncio.Semaphore(_AT_ONCE)
    for kind, bases in BASES.items():
        whole, taken = list(properties(schema_of(kind))), set[Path]()
        for place, base in enumerate(bases):
            due = [found for found in whole if _is_due(found[0], base, bases, taken)]
            known = [edit for edit in context.edits.get((kind, 0), ()) if _is_alike(edit.path, base, bases[0])]
            context.edits[kind, place] = known + await _Asking(context, gate, space, kind, base).accepted(due)
            taken |= {edit.path for edit in context.edits[kind, place]}
        context.uncovered += [
            f"{kind}.{'.'.join(path)}"
            for path, _ in whole
            if not any(edited[: len(path)] == path for edited in taken)
        ]  # fmt: skip


def _is_due(path: Path, base: Spec, bases: Sequence[Spec], taken: set[Path]) -> bool:
    """Return True if a path must be tried. A path inside a list is tried until the API server accepts it once."""
    if base is not bases[0] and _is_alike(path, base, bases[0]):
        return False
    if ITEM not in path:
        return True
    outer = path[: path.index(ITEM)]
    return bool(at(base, outer)) if any(at(each, outer) for each in bases) else path not in taken


def _is_alike(path: Path, base: Spec, first: Spec) -> bool:
    """Return True if the first base has the same value there, so that its results apply here."""
    return base.get(path[0]) == first.get(path[0])


class _Asking:
    def __init__(self, context: WalkContext, gate: asyncio.Semaphore, space: str, kind: str, base: Spec) -> None:
        self._context = context
        self._gate = gate
        self._kind = kind
        self._space = space
        self._base = base

    async def accepted(self, found: Iterable[tuple[Path, Mapping[str, Any]]]) -> list[Edit]:
        """Return the accepted edits.

        Outer properties are tried first, because inner ones need an accepted outer value.
        """
        good: dict[Path, list[Edit]] = {}
        for _, level in groupby(sorted(found, key=_depth), key=_depth):
            asked = [(path, self._well_taken(path, values(below, path), good)) for path, below in level]
            answers = await asyncio.gather(*(answer for _, answer in asked))
            good |= {path: edits for (path, _), edits in zip(asked, answers, strict=True)}
        return [edit for edits in good.values() for edit in edits]

    async def _well_taken(self, path: Path, tried: Sequence[Any], good: Mapping[Path, Sequence[Edit]]) -> list[Edit]:
        """Return the accepted edits of one property, for the first parent value that allows any of them."""
        for within in _surroundings(path, good):
            edits = [edit for value in tried if self._differs(edit := Edit(path, value, within))]
            answers = await asyncio.gather(*map(self._is_taken, edits))
            if taken := [edit for edit, well in zip(edits, answers, strict=True) if well]:
                return taken
        return []

    async def _is_taken(self, edit: Edit) -> bool:
        metadata = {"name": f"{NAMES[self._kind]}-tried", "namespace": self._space}
        spec = edit.applied(self._base)
        body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": self._kind, "metadata": metadata, "spec": spec}
        try:
            async with self._gate:
                path = path_of(self._kind, self._space) + "?dryRun=All&fieldValidation=Strict"
                await self._context.client.request("POST", path, body)
        except Refusal as refusal:
            if refusal.status not in {400, 422}:
                raise
            return False
        return True

    def _differs(self, edit: Edit) -> bool:
        try:
            return edit.applied(self._base) != self._base
        except (AttributeError, LookupError, TypeError):
            return False


def _depth(found: tuple[Path, Mapping[str, Any]]) -> int:
    return len(found[0])


def _surroundings(path: Path, good: Mapping[Path, Sequence[Edit]]) -> list[tuple[Edit, ...]]:
    """Return the edits that can create the parent of a property, nearest first, and last the empty choice."""
    found = [
        (*edit.within, edit)
        for length in range(len(path) - 1, 0, -1)
        for edit in [edit for edit in good.get(path[:length], ()) if edit.opens][:_OPENINGS]
    ]
    return found or [()]
