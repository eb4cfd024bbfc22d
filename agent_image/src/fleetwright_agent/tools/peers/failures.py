"""The causes of a failed request to a peer. The SDK's client wraps errors, so the cause may be below the error."""

from collections.abc import Iterator

import httpx

from fleetwright_a2a.outbound.bounded_responses import TooLarge
from fleetwright_a2a.outbound.pinned_http import DeniedAddress


class PrincipalNotAccepted(httpx.HTTPStatusError):
    """The peer accepts no token that names a principal: it has no keys of the gateway, or does not know DPoP."""

    def __init__(self, request: httpx.Request, response: httpx.Response) -> None:
        super().__init__("the peer accepts no token that names a principal", request=request, response=response)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error is about, without its causes; None if it is about none."""
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None


def is_disconnected(error: BaseException) -> bool:
    """Return True if the connection failed; False if this agent itself refused the address or the response."""
    causes = list(causes_of(error))
    if any(isinstance(each, TooLarge | DeniedAddress) for each in causes):
        return False
    return any(isinstance(each, httpx.NetworkError | httpx.RemoteProtocolError) for each in causes)


def meaning_of(error: BaseException) -> str:
    """Describe the failure for the model."""
    for cause in causes_of(error):
        if isinstance(cause, PrincipalNotAccepted):
            return "it does not accept calls for the caller of this task at the moment; try again later"
        if isinstance(cause, httpx.HTTPStatusError):
            status = cause.response.status_code
            return "it does not accept this agent as a caller (401)" if status == 401 else f"it answered {status}"
        if isinstance(cause, httpx.TimeoutException):
            return "it did not answer in time"
        if isinstance(cause, DeniedAddress):
            return "its name leads to an address that agents may not reach"
        if isinstance(cause, TooLarge):
            return "it sent more than this agent reads"
    return "no connection"
