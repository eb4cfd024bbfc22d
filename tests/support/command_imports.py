"""The imports of the process whose forks `tests.support.forked_commands` starts."""

# ruff: noqa: F401 - the imports are the purpose
import gc
import sys

import anyio._backends._asyncio
import h11
import httpcore
import kubernetes

import fleetwright_cli.__main__
import fleetwright_cli.dev.command
import fleetwright_cli.evaluation.command
import fleetwright_cli.inspection.agents
import fleetwright_cli.inspection.log_reading
import fleetwright_cli.inspection.reasons
import fleetwright_cli.inspection.tasks
import fleetwright_cli.say
import fleetwright_cli.terminal.headless.command
import fleetwright_cli.terminal.transport.cluster_agent
import fleetwright_cli.terminal.view.command
import fleetwright_cli.terminal.view.plain_chat
import fleetwright_cli.terminal.view.transcript

# The client imports the module of an API when it is first used, with the models of its kinds.
for name in ("CoreV1Api", "CustomObjectsApi", "V1DeleteOptions", "V1Preconditions"):
    getattr(kubernetes.client, name)

# This package reads KUBECONFIG when it is imported.
for name in [name for name in sys.modules if name.startswith("kubernetes.config")]:
    del sys.modules[name]
gc.collect()
gc.freeze()
