"""A running runner with its executor, for tests of the ring `process`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.workspace import LocalWorkspace


@pytest.fixture(scope="module")
def workspace(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorkspace]:
    """A workspace that the tests of one module share. Each uses file names of its own."""
    running = LocalWorkspace(tmp_path_factory.mktemp("workspace"))
    yield running
    running.stop()


@pytest.fixture
def own_workspace(process_ring: None, tmp_path: Path) -> Iterator[LocalWorkspace]:
    """A workspace that a test may damage."""
    running = LocalWorkspace(tmp_path)
    yield running
    running.stop()
