"""The fixtures of the runtime's tests: mounted files, scripted turns, its server on loopback, third-party programs."""

import fcntl
import hashlib
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from e2e.cluster.paths import cache
from e2e.cluster.uv import folder as uv_folder
from tests.support.agent.fork_server import ForkServer
from tests.support.agent.served_agent import (
    Mounted,
    Open,
    ScriptedTurn,
    callers_document,
    config_document,
    mounted_at,
    next_message_id,
    startable_agent,
)

from fleetwright_agent.protocol.frames import Frame, TurnRequest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_logger() -> Iterator[None]:
    """Restore the level of the runtime's logger, which an agent's `logging.level` changes for the whole process."""
    logger = logging.getLogger("fleetwright_agent")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return mounted_at(tmp_path)


@pytest.fixture(scope="session")
def mount_below() -> Callable[..., Mounted]:
    """Write an agent's files, with configuration changes, to a folder that outlives a test."""
    return mounted_at


@pytest.fixture
def scripted() -> Callable[[Callable[[TurnRequest], AsyncIterator[Frame]]], ScriptedTurn]:
    return ScriptedTurn


@pytest.fixture
def documents() -> Callable[..., dict[str, Any]]:
    """Return the function that builds the configuration document with changes."""
    return config_document


@pytest.fixture
def callers() -> Callable[[dict[str, str]], dict[str, Any]]:
    """Return the callers document for this mapping of owners to tokens."""
    return callers_document


@pytest.fixture
async def open_door(process_ring: None, mounted: Mounted) -> AsyncIterator[Open]:
    """Start the agent with a turn (the echo by default) behind a real HTTP server, and stop it after the test."""
    async with startable_agent(mounted) as start:
        yield start


@pytest.fixture(scope="session")
def fork_server(process_ring: None) -> Iterator[ForkServer]:
    """The process from which agents and commands are forked. It ends with the last test."""
    with ForkServer() as started:
        yield started


@pytest.fixture
def request_of() -> Callable[..., SendMessageRequest]:
    """A message for the real client."""

    def build(text: str, **changes: Any) -> SendMessageRequest:
        message = Message(message_id=next_message_id(), role=Role.ROLE_USER, parts=[Part(text=text)], **changes)
        return SendMessageRequest(message=message)

    return build


@contextmanager
def _installed(name: str, lock: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the cache folder of a lock file, and True if it is complete. One process at a time fills it."""
    folder = cache() / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / ".installed"
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder, done.exists()
        done.touch()


@pytest.fixture(scope="session")
def python_environment(process_ring: None) -> Callable[[str], Path]:
    """Return a function that installs a Python environment by the name of its lock, and returns its program folder."""

    def install(name: str) -> Path:
        lock = ROOT / f"locks/{name}.txt"
        with _installed(name, lock) as (folder, there):
            environment = folder / "env"
            if not there:
                uv = str(uv_folder() / "uv")
                venv = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment]
                subprocess.run(venv, check=True)
                sync = [
                    uv,
                    "pip",
                    "sync",
                    "--quiet",
                    "--compile-bytecode",
                    "--python",
                    environment,
                    "--require-hashes",
                    lock,
                ]
                subprocess.run(sync, check=True)
            return environment / "bin"

    return install


@pytest.fixture(scope="session")
def installed(process_ring: None) -> Callable[[str, Path], Any]:
    """Return the context manager for the cache folder of a lock file, which all test runs share."""
    return _installed
