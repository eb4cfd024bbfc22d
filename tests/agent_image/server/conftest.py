"""Starts agents as processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.cluster.ports import free_ports
from tests.support.agent import steered_agent
from tests.support.agent.agent_process import HEADERS, AgentProcess, end_process, serve_arguments
from tests.support.agent.fork_server import STEERED_AGENT, ForkedProcess, ForkServer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS

EXAMPLE = Path(__file__).parents[3] / "examples/foreign-executor"
Start = Callable[..., Any]


@pytest.fixture
def start(fork_server: ForkServer, mounted: Any) -> Start:
    """Return a function that starts the agent on the mounted files, and kills it at the end if it still runs."""

    async def started(
        ports: Sequence[int], executor: str, prefix: Sequence[str], program: Path | None
    ) -> asyncio.subprocess.Process | ForkedProcess:
        environment = {**os.environ, "PYTHONPATH": str(EXAMPLE)}
        if executor:
            _set_executor(mounted, executor)
            return fork_server.start(serve_arguments(mounted.layout.root, ports), environment=environment)
        words = [str(mounted.layout.root), *map(str, ports)]
        if program is None and not prefix:
            return fork_server.start(words, entry=STEERED_AGENT)
        return await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, str(program or steered_agent.__file__), *words),
            stdout=subprocess.DEVNULL,
            env=environment,
        )

    @asynccontextmanager
    async def of(
        *, executor: str = "", prefix: Sequence[str] = (), ready: bool = True, program: Path | None = None
    ) -> AsyncIterator[AgentProcess]:
        """Start the agent; an executor requires the image's command, and the prefix is a command that runs it."""
        ports = free_ports()
        process = await started(ports, executor, prefix, program)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        try:
            async with (
                httpx.AsyncClient(verify=NO_TLS, base_url=urls[0], headers=HEADERS, timeout=ceiling()) as a2a,
                httpx.AsyncClient(verify=NO_TLS, base_url=urls[1], timeout=ceiling()) as ops,
            ):
                agent = AgentProcess(process, a2a, ops)
                if ready:
                    await agent.ready()
                yield agent
        finally:
            await end_process(process)

    return of


def _set_executor(mounted: Any, executor: str) -> None:
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"executor": executor})
