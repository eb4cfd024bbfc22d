"""The fixtures of the command line's tests: one local fleet for all tests of a worker, and a program for kubectl."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli.fleet import Fleet, running_fleet
from tests.support.cli.kubectl import install_kubectl


@pytest.fixture(scope="session")
def fleet(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run a fleet with the agent `desk`. Its tool `refund_order` needs an approval."""
    with running_fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield running


@pytest.fixture
def kubectl(fleet: Fleet, tmp_path: Path) -> Path:
    """Return a folder with a program that is kubectl for commands with `with_kubectl`, and with its objects."""
    install_kubectl(fleet, tmp_path)
    return tmp_path
