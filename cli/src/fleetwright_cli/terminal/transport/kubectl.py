"""Runs kubectl, which brings the plugins and proxies of the user's kubeconfig."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.no_cluster import NO_CLUSTER, lacks_cluster
from fleetwright_cli.terminal.transport.errors import (
    AccessDenied,
    AgentUnreachable,
    ClusterNotConfigured,
    TransportError,
)

T = TypeVar("T")

_SECONDS: Final = 30.0
_PIECE: Final = 64 * 1024
_LONGEST_LINE: Final = 1024 * 1024
_LONGEST: Final = 300
_FORBIDDEN: Final = "(Forbidden)"


@dataclass(frozen=True, slots=True)
class KubectlResult:
    """The output of a finished kubectl process."""

    code: int
    output: bytes
    errors: bytes
    is_cut: bool = False
    """True if kubectl printed more, and the output is only the end of it."""

    @property
    def reason(self) -> str:
        """The last line of kubectl's standard error, as the reason of the failure."""
        return last_line(self.errors) or f"kubectl ended with {self.code}"


def place_options(context: str | None, namespace: str | None) -> tuple[str, ...]:
    """Return the options that select a cluster and a namespace; the kubeconfig decides about those that are unset."""
    chosen = (("--context", context), ("--namespace", namespace))
    return tuple(word for option, value in chosen if value for word in (option, value))


async def kubectl_run(
    program: str, arguments: Sequence[str], *, seconds: float = _SECONDS, most: int | None = None
) -> KubectlResult:
    """Run kubectl to its end.

    Args:
        program: The program to run.
        arguments: Its arguments.
        seconds: How long it may run.
        most: The number of bytes that are kept of the end of its output; None for all.

    Raises:
        TransportError: kubectl is missing.
        AgentUnreachable: kubectl did not end in time.
    """
    code, (output, is_cut), errors = await _run(
        program, arguments, lambda stream: _read_end(stream, most), seconds=seconds
    )
    return KubectlResult(code, output, errors, is_cut)


async def stream_kubectl_lines(
    program: str, arguments: Sequence[str], take: Callable[[bytes], None], *, seconds: float = _SECONDS
) -> KubectlResult:
    """Run kubectl to its end, and pass on each line of its output as it arrives. The result has no output.

    Args:
        program: The program to run.
        arguments: Its arguments.
        take: Receives each line without its end, except lines of more than 1 MiB.
        seconds: How long it may run.

    Raises:
        TransportError: kubectl is missing.
        AgentUnreachable: kubectl did not end in time.
    """

    async def pass_on(stream: asyncio.StreamReader) -> None:
        async for line in read_lines(stream):
            take(line)

    code, _, errors = await _run(program, arguments, pass_on, seconds=seconds)
    return KubectlResult(code, b"", errors)


async def _run(
    program: str,
    arguments: Sequence[str],
    read_output: Callable[[asyncio.StreamReader], Awaitable[T]],
    *,
    seconds: float,
) -> tuple[int, T, bytes]:
    """Run kubectl to its end. Return its exit code, what was read of its output, and the end of its errors."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError:
        raise TransportError(f"{program} is not installed; install it, or give --url and --token-file") from None
    assert process.stdout is not None  # noqa: S101 - both are pipes
    assert process.stderr is not None  # noqa: S101 - same
    try:
        async with asyncio.timeout(seconds):
            output, (errors, _), _ = await asyncio.gather(
                read_output(process.stdout), _read_end(process.stderr, _PIECE), process.wait()
            )
    except TimeoutError:
        raise AgentUnreachable(f"kubectl {arguments[-1]}: no answer within {seconds:.0f} s") from None
    finally:
        signal_process(process, signal.SIGKILL)
        await process.wait()
    return process.returncode or 0, output, errors


def signal_process(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a process, unless it has ended.

    The methods of asyncio would reap a process that has just ended, and asyncio then prints that it is unknown.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream without their ends, except lines of more than 1 MiB."""
    rest, is_skipped = bytearray(), False
    while piece := await stream.read(_PIECE):
        *lines, last = piece.split(b"\n")
        for line in lines:
            rest += line
            if not is_skipped and len(rest) <= _LONGEST_LINE:
                yield bytes(rest)
            rest.clear()
            is_skipped = False
        rest += last
        if len(rest) > _LONGEST_LINE:
            rest.clear()
            is_skipped = True
    if rest and not is_skipped:
        yield bytes(rest)


async def _read_end(stream: asyncio.StreamReader, most: int | None) -> tuple[bytes, bool]:
    """Read a stream to its end. Return at most its last `most` bytes, and whether it had more."""
    kept, is_cut = bytearray(), False
    while piece := await stream.read(_PIECE):
        kept += piece
        # Each byte is moved at most once, because the buffer grows to twice its size first.
        if most is not None and len(kept) > 2 * most:
            del kept[:-most]
            is_cut = True
    if most is not None and len(kept) > most:
        del kept[:-most]
        is_cut = True
    return bytes(kept), is_cut


async def kubectl_json(program: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the JSON that kubectl prints.

    Raises:
        TransportError: kubectl is missing.
        ClusterNotConfigured: There is no kubeconfig, or it names no context.
        AccessDenied: The user may not read the object.
        AgentUnreachable: kubectl failed. The message is its last line of errors.
    """
    ended = await kubectl_run(program, (*arguments, "-o", "json"))
    if ended.code:
        if lacks_cluster(ended.reason) and not await _uses_context(program, arguments):
            raise ClusterNotConfigured(NO_CLUSTER)
        raise (AccessDenied if _FORBIDDEN in ended.reason else AgentUnreachable)(ended.reason)
    try:
        document = read_json(ended.output)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise AgentUnreachable("kubectl did not print a JSON object")
    return document


async def _uses_context(program: str, arguments: Sequence[str]) -> bool:
    """Return whether kubectl calls the cluster of a context, and not `localhost:8080` for lack of one."""
    if "--context" in arguments:  # kubectl itself reports a context that does not exist.
        return True
    return (await kubectl_run(program, ("config", "current-context"))).code == 0


def last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST] if lines else ""
