"""A spawned `kubectl port-forward` to one port of a pod. It ends with its pod."""

import asyncio
import re
import signal
from collections.abc import Sequence
from typing import Final

from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import last_line, signal_process

_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ->")
_READY_SECONDS: Final = 20.0
_END_SECONDS: Final = 5.0


class PodTunnel:
    def __init__(self, kubectl: str = "kubectl") -> None:
        """Args: `kubectl` is the program to run."""
        self._kubectl = kubectl
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None

    async def open(self, place: Sequence[str], pod: str, port: int) -> int:
        """Return the local port, on 127.0.0.1. An earlier tunnel is closed.

        Args:
            place: The options of kubectl that select the cluster and the namespace.
            pod: The name of the pod.
            port: The port of the pod.

        Raises:
            AgentUnreachable: kubectl has opened no tunnel. The message is its last line of errors.
        """
        await self.close()
        # Ctrl-C in the terminal must reach this program only, so the tunnel has a session of its own.
        self._process = process = await asyncio.create_subprocess_exec(
            self._kubectl,
            *place,
            "port-forward",
            "--address",
            "127.0.0.1",
            f"pod/{pod}",
            f":{port}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        if process.stdout is None or process.stderr is None:
            raise AgentUnreachable("kubectl port-forward has no output")
        try:
            async with asyncio.timeout(_READY_SECONDS):
                async for line in process.stdout:
                    if found := _FORWARDING.match(line):
                        self._drain = asyncio.create_task(_drain_streams(process.stdout, process.stderr))
                        return int(found[1])
                reason = last_line(await process.stderr.read())
        except TimeoutError:
            reason = f"not ready within {_READY_SECONDS:.0f} s"
        await self.close()
        raise AgentUnreachable(f"kubectl port-forward to pod {pod}: {reason}")

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            signal_process(process, signal.SIGTERM)
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            except TimeoutError:
                signal_process(process, signal.SIGKILL)
                await process.wait()
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None


async def _drain_streams(*streams: asyncio.StreamReader) -> None:
    """Read the output of the tunnel, so that a full pipe never stops it."""

    async def drain(stream: asyncio.StreamReader) -> None:
        while await stream.read(4096):
            pass

    await asyncio.gather(*map(drain, streams))
