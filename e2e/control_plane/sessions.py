"""The reaper of a pytest session, which also ends the session's workers."""

from contextlib import ExitStack

import pytest
from e2e.cluster.run_folder import reaped_session


def reap(session: pytest.Session) -> None:
    """Start a reaper for the session, before pytest starts workers. A signal to pytest does not reach those."""
    stack = ExitStack()
    # pytest offers its folder to fixtures only, and fixtures come after the workers have been started.
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001 - as said above
    stack.enter_context(reaped_session(factory.getbasetemp()))
    session.config.add_cleanup(stack.close)
