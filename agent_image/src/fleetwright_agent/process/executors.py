"""Creates the configured executor before the server listens.

The creation fails if the class does not exist, cannot be instantiated, or is not an executor of the a2a-sdk.
"""

import importlib
from typing import TYPE_CHECKING

from fleetwright_agent.config.mounted_files import ConfigurationError

if TYPE_CHECKING:
    from a2a.server.agent_execution import AgentExecutor


def load_executor(place: str) -> "AgentExecutor":
    """Call `MODULE:NAME` without arguments and return the executor.

    Raises: ConfigurationError.
    """
    # Imported lazily: importing the executor modules of the a2a-sdk takes a third of the startup time.
    from a2a.server.agent_execution import AgentExecutor

    module, _, name = place.partition(":")
    try:
        executor = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise ConfigurationError(f"executor {place} cannot be created: {type(error).__name__}: {error}") from error
    if not isinstance(executor, AgentExecutor):
        raise ConfigurationError(f"executor {place} is not an AgentExecutor of the a2a-sdk; name one as module:Class")
    return executor
