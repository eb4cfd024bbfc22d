"""The executor that the configuration names, found in the image and made once, before the server listens.

Refuses: what is not there, cannot be made, or is no executor of the a2a-sdk.
"""

import importlib
from typing import TYPE_CHECKING

from fleetwright_agent.config.mounted_files import ConfigurationError

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor


def made(place: str) -> "AgentExecutor":
    """What `MODULE:NAME` gives when it is called without arguments.

    Raises: ConfigurationError.
    """
    # Not before it is needed: what an executor of the SDK imports takes a third of the start.
    from a2a.server.agent_execution import AgentExecutor

    module, _, name = place.partition(":")
    try:
        executor = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise ConfigurationError(f"executor {place} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(executor, AgentExecutor):
        raise ConfigurationError(f"executor {place} is no AgentExecutor of the a2a-sdk; name one as module:Class")
    return executor
