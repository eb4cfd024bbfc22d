"""The command of the agent image, `fleetwright-agent`: `serve`, `probe`, `audit`, `bridge`, `curate`, `fetch`.

Exit codes: 0 on success; 2 if the mounted files or the arguments are invalid; 65 (EX_DATAERR) if the content of a fixed
commit or image cannot be used; 75 (EX_TEMPFAIL) if a remote service failed and a retry may succeed. An error is written
as one line to standard error and to the pod's termination message. The agent does not start if its configuration is
invalid.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleetwright_a2a.lazy_import import fast_imports
from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.audit.factory import redactor
from fleetwright_agent.commands import audit
from fleetwright_agent.commands.bridge import command as bridge
from fleetwright_agent.commands.curate import command as curator
from fleetwright_agent.commands.fetch import command as fetch
from fleetwright_agent.commands.probe import command as probe
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import (
    ConfigurationError,
    SourceUnavailable,
    UnusableContent,
    check_addresses,
    check_memory,
    load,
)
from fleetwright_agent.process import executors
from fleetwright_agent.process.sockets import EVERY, listen
from fleetwright_agent.server import gc_tuning
from fleetwright_agent.telemetry.logs import LEVELS, configure

BAD_CONFIGURATION: Final = 2
UNUSABLE_CONTENT: Final = 65
TEMPORARY_FAILURE: Final = 75
_TERMINATION_LOG: Final = Path("/dev/termination-log")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except UnusableContent as error:
        write_termination_message(str(error), termination_log=_TERMINATION_LOG)
        return UNUSABLE_CONTENT
    except ConfigurationError as error:
        write_termination_message(str(error), termination_log=_TERMINATION_LOG)
        return BAD_CONFIGURATION
    except SourceUnavailable as error:
        write_termination_message(str(error), termination_log=_TERMINATION_LOG)
        return TEMPORARY_FAILURE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fleetwright-agent", description="The Fleetwright agent runtime.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the agent that is mounted under --root")
    serve.add_argument("--root", type=Path, default=Path("/"), help="folder of the mounted files (default: /)")
    serve.add_argument("--host", default=EVERY, help="address to listen on (default: all, IPv6 and IPv4)")
    serve.add_argument("--port", type=int, default=7870, help="port of the A2A protocol; 0 for a free one")
    serve.add_argument("--ops-port", type=int, default=7871, help="port for health, metrics and status")
    serve.add_argument("--log-level", choices=LEVELS, default="info")
    serve.set_defaults(run=_serve)
    audit.declare(commands)
    probe.declare(commands)
    bridge.declare(commands)
    curator.declare(commands)
    fetch.declare(commands)
    return parser


def _serve(options: argparse.Namespace) -> None:
    gc_tuning.settle()  # The imports below leave hardly any garbage to collect.
    layout = Layout(root=options.root)
    config = load(layout)
    check_memory(layout.memory)
    check_addresses(config, layout)
    # The a2a-sdk reads this variable at import. By default it traces, which costs a quarter of the throughput.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    executor = executors.load_executor(config.executor) if config.executor else None
    a2a, ops = listen(options.host, options.port), listen(options.host, options.ops_port)
    configure(options.log_level, redact=redactor(layout))
    with fast_imports():
        import uvloop
        from prometheus_client import CollectorRegistry, ProcessCollector

        from fleetwright_agent.app import create_app
        from fleetwright_agent.process.serving import serve
        from fleetwright_agent.telemetry.metrics import Metrics

    async def run() -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        app = create_app(config, layout=layout, metrics=Metrics(registry), executor=executor)
        await serve(app, a2a=a2a, ops=ops)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def write_termination_message(message: str, *, termination_log: Path) -> None:
    """Write one redacted line to standard error and, if the file exists, to the pod's termination log."""
    line = Redactor().text(" ".join(message.split()))
    sys.stderr.write(f"fleetwright-agent: {line}\n")
    if termination_log.is_file() and os.access(termination_log, os.W_OK):
        termination_log.write_text(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
