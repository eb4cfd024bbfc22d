"""Targets of compaction on small samples of the `make bench-compaction` fixtures; only the benchmark measures time.

The measures of long conversations are marked `exhaustive`.
"""

import asyncio
import logging

import pytest
from tests.bench.compaction import measures, own
from tests.bench.compaction.ours import opener
from tests.bench.compaction.targets import TARGETS

_TIMED = {"speed", "large"}
_LONG = {"facts", "ledger", "corrections", "successive", "histories", "random_histories"}
"""Measures of conversations with hundreds of turns, and of histories that `test_compaction` counts too."""


def _measured(names):
    logging.disable(logging.CRITICAL)
    try:
        return asyncio.run(_run(names - _TIMED))
    finally:
        logging.disable(logging.NOTSET)


async def _run(names):
    shared = [name for name in measures.ALL if name in names]
    alone = [name for name in own.ALL if name in names]
    return await measures.run(opener(), shared, quick=True) | await own.run(alone, quick=True)


@pytest.fixture(scope="module")
def figures(process_ring):
    return _measured({*measures.ALL, *own.ALL} - _LONG)


@pytest.fixture(scope="module")
def figures_of_long_conversations(process_ring):
    return _measured(_LONG)


def _targets(*, long):
    """Return the targets that depend on no duration, either of long conversations or of the other ones."""
    untimed = [target for target in TARGETS if not target.unit.endswith("ms")]
    return [pytest.param(target, id=target.check) for target in untimed if (target.measure in _LONG) is long]


@pytest.mark.starts_first
@pytest.mark.parametrize("target", _targets(long=False))
def test_compaction_target_is_met(figures, target):
    assert target.holds(figures), f"{target.value(figures)} instead of {target.promise}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", _targets(long=True))
def test_compaction_target_of_long_conversations_is_met(figures_of_long_conversations, target):
    value = target.value(figures_of_long_conversations)
    assert target.holds(figures_of_long_conversations), f"{value} instead of {target.promise}"
