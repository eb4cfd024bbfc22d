"""The walks on a control plane: one for each property, and random sequences of edits."""

import asyncio
import copy
import random
from collections.abc import Sequence

from e2e.walk.bases import BASES, Spec
from e2e.walk.edits import Edit, Path
from e2e.walk.walk_context import WalkContext
from e2e.walk.walker import Walker

_AT_ONCE = 12


async def walk_properties(context: WalkContext, *, every: int = 1, seed: int = 0) -> None:
    """Set, change, unset and revert, one property after the other, from the first base that has it."""
    chosen: dict[tuple[str, Path], tuple[int, list[Edit]]] = {}
    for (kind, place), edits in context.edits.items():
        for edit in edits:
            found = chosen.setdefault((kind, edit.path), (place, []))
            if found[0] == place:
                found[1].append(edit)
    keys = sorted(chosen)
    random.Random(seed).shuffle(keys)
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(
        *(_property(context, gate, kind, BASES[kind][chosen[kind, path][0]], chosen[kind, path][1])
          for kind, path in keys[::every])
    )  # fmt: skip


async def walk_randomly(context: WalkContext, *, seed: int, walks: int, length: int = 6) -> None:
    """Run random sequences of edits, jumps to another base, and reverts. Compare at every other step and at the end."""
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_random(context, gate, seed + number, length) for number in range(walks)))


async def _property(
    context: WalkContext, gate: asyncio.Semaphore, kind: str, base: Spec, edits: Sequence[Edit]
) -> None:
    chosen = [edits[0], edits[-1]] if len(edits) > 1 else [edits[0]]
    async with gate:
        walker = Walker(context, kind, base)
        await walker.begin()
        for edit in (*chosen, edits[0].unset()):
            await walker.take(edit.applied(base), str(edit))
        if walker.spec != base:
            await walker.take(base, "back to the base")


async def _random(context: WalkContext, gate: asyncio.Semaphore, seed: int, length: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(sorted(BASES))
    async with gate:
        walker = Walker(context, kind, BASES[kind][0], label=f"seed {seed}")
        await walker.begin()
        place, spec = 0, copy.deepcopy(BASES[kind][0])
        for step in range(length):
            if chance.random() < 0.2:
                place = chance.randrange(len(BASES[kind]))
                spec, what = copy.deepcopy(BASES[kind][place]), f"base {place}"
            else:
                edit = chance.choice(context.edits[kind, place])
                edit = edit.unset() if chance.random() < 0.25 else edit
                spec, what = edit.applied(spec), str(edit)
            if not await walker.take(spec, what, compare=step % 2 == 1 or step == length - 1):
                spec = copy.deepcopy(walker.spec)
