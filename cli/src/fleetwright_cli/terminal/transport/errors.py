"""The errors of a connection to an agent. Their messages name the remedy, and never contain a token."""

from fleetwright_cli.safe_text import safe_text


class TransportError(Exception):
    """The base of all errors of a connection. Their text may come from an agent, so it has no control characters."""

    def __init__(self, message: str = "") -> None:
        super().__init__(safe_text(message))


class AgentUnreachable(TransportError):  # noqa: N818 - names the state of the agent
    """There is no connection, or it was lost. A later attempt may succeed."""


class ClusterNotConfigured(AgentUnreachable):
    """There is no kubeconfig, or it names no context."""


class AccessDenied(AgentUnreachable):
    """The user of the kubeconfig may not read an object of the cluster."""


class AgentNotFound(AgentUnreachable):
    """There is no agent with this name, or the agent has no client with the given name."""


class AgentUnauthorized(TransportError):  # noqa: N818 - names the state of the request
    """The agent does not accept the token."""


class NotAdministrator(AgentUnauthorized):
    """The agent accepts the token, but the client is not one of its administrators."""


class RequestError(TransportError):
    """The agent answered with an error."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class AdministratorMissingError(RequestError):
    """The Agent names no administrator."""
