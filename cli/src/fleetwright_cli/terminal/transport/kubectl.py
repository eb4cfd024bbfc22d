"""Runs kubectl, which brings the plugins and proxies of the user's kubeconfig."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.no_cluster import NO_CLUSTER, lacks_cluster
from fleetwright_cli.terminal.transport.errors import (
    AccessDenied,
    AgentUnreachable,
    ClusterNotConfigured,
    TransportError,
)

_SECONDS: Final = 30.0
_PIECE: Final = 64 * 1024
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
    try:
        async with asyncio.timeout(seconds):
            (output, is_cut), (errors, _), _ = await asyncio.gather(
                _read_end(process.stdout, most), _read_end(process.stderr, _PIECE), process.wait()
            )
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AgentUnreachable(f"kubectl {arguments[-1]}: no answer within {seconds:.0f} s") from None
    return KubectlResult(process.returncode or 0, output, errors, is_cut)


async def _read_end(stream: asyncio.StreamReader | None, most: int | None) -> tuple[bytes, bool]:
    """Read a stream to its end. Return at most its last `most` bytes, and whether it had more."""
    kept, is_cut = bytearray(), False
    while stream is not None and (piece := await stream.read(_PIECE)):
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
