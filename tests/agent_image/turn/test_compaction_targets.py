"""Targets of compaction on small samples of the `make bench-compaction` fixtures; only the benchmark measures time."""

import asyncio
import logging

import pytest
from tests.bench.compaction import measures, own
from tests.bench.compaction.ours import opener
from tests.bench.compaction.targets import TARGETS

pytestmark = pytest.mark.starts_first

_TIMED = {"speed", "large"}


@pytest.fixture(scope="module")
def figures(process_ring):
    logging.disable(logging.CRITICAL)
    try:
        return asyncio.run(_measured())
    finally:
        logging.disable(logging.NOTSET)


async def _measured():
    shared = [name for name in measures.ALL if name not in _TIMED]
    alone = [name for name in own.ALL if name not in _TIMED]
    return await measures.run(opener(), shared, quick=True) | await own.run(alone, quick=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "target", [pytest.param(target, id=target.check) for target in TARGETS if not target.unit.endswith("ms")]
)
def test_compaction_target_is_met(figures, target):
    assert target.holds(figures), f"{target.value(figures)} instead of {target.promise}"
