"""The rings `unit` and `process`, and the guard that keeps processes and sockets out of `unit`.

A test belongs to the ring `process` if it carries the mark `process`, uses the fixture `process_ring`, or is
in a folder that needs a control plane. Every other test belongs to the ring `unit`. `pytest -m "not process"` runs
the ring `unit` alone. The unit tests of the operator, the gateway and the libraries run in
virtual time.
"""

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import load_profiles
from tests.support.machine import machine_factor, outer_ceiling
from tests.support.virtual_time import VirtualLoop

_MARKERS = (
    "process: starts a process or opens a socket; not part of the ring `unit`",
    "starts_first: a module that takes long and starts first, so that the workers finish together",
    "exhaustive: a longer variant of a test, or a further test of the same behaviour; only whole rings run it",
)
_PROCESS_FOLDERS = frozenset({"controlplane", "faults"})
_PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
_SOCKET_EVENTS = frozenset({"socket.bind", "socket.connect", "socket.getaddrinfo"})


@pytest.fixture(scope="session")
def process_ring() -> None:
    """Mark the tests that use this fixture as `process`. Fixtures that start a process or open a socket request it."""


class NotAUnitTestError(RuntimeError):
    """A test of the ring `unit` started a process or opened a socket."""


class _Guard:
    """Refuses processes and sockets while a test of the ring `unit` runs."""

    def __init__(self) -> None:
        self.guarded = ""
        """The id of the running test, or nothing while processes and sockets are allowed."""
        self.refused: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.guarded and _is_refused(event, arguments):
            error = f"{self.guarded} caused {event}: mark this test as process (pytest.mark.process)"
            self.refused.append(error)
            raise NotAUnitTestError(error)


def _is_refused(event: str, arguments: tuple[Any, ...]) -> bool:
    if event in _SOCKET_EVENTS:
        return not (isinstance(arguments[0], socket.socket) and arguments[0].family == socket.AF_UNIX)
    return event in _PROCESS_EVENTS


_GUARD = _Guard()
load_profiles()  # before the plugin of hypothesis loads the profile of the command line


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    machine_factor()  # The workers of xdist inherit the factor.
    sys.addaudithook(_GUARD)
    gc.disable()  # The collection of tests allocates much and frees little; the collector took an eighth of its time.


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _needs_process(item):
            item.add_marker(pytest.mark.process)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(outer_ceiling()))
    items.sort(key=lambda item: item.get_closest_marker("starts_first") is None)


def pytest_collection_finish() -> None:
    """Exempt the imported modules from garbage collection, which would otherwise traverse them again and again.

    The little garbage of the collection of tests stays, because finding it takes most of a second in each worker.
    """
    gc.freeze()
    gc.enable()


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if _folder(item) in {"gateway", "libs", "operator"} and not _needs_process(item):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.SelectorEventLoop}


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _needs_process(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return _folder(item) in _PROCESS_FOLDERS or "process_ring" in fixtures or bool(item.get_closest_marker("process"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _GUARD.guarded = "" if item.get_closest_marker("process") else item.nodeid
    _GUARD.refused.clear()
    try:
        return (yield)
    finally:
        _GUARD.guarded = ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Fail the test even if the code under test caught the guard's error."""
    yield
    if _GUARD.refused:
        raise NotAUnitTestError(_GUARD.refused[0])
