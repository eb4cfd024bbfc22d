"""Conversion between a client's push configuration and a stored registration. Pure."""

from collections.abc import Sequence
from typing import Final

from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError

from fleetwright_agent.server.push.encryption import PushCredentials
from fleetwright_agent.server.tasks.messages import check_id

MOST_OF_TASK: Final = 10
_MAX_CREDENTIAL: Final = 4096


def credentials_of(config: TaskPushNotificationConfig) -> PushCredentials:
    """Return the credentials of a configuration.

    Raises:
        InvalidParamsError: A value is not safe in an HTTP header, or is too long.
    """
    check_id(config.id, field="pushNotificationConfig.id")
    _check("token", config.token)
    _check("authentication.credentials", config.authentication.credentials)
    scheme = config.authentication.scheme
    if not scheme.isascii() or not all(sign.isalnum() or sign in "-_." for sign in scheme) or len(scheme) > 64:
        raise InvalidParamsError("pushNotificationConfig.authentication.scheme is not a scheme name such as Bearer")
    return PushCredentials(config.token, scheme, config.authentication.credentials)


def _check(field: str, value: str) -> None:
    if len(value) > _MAX_CREDENTIAL:
        raise InvalidParamsError(f"pushNotificationConfig.{field} is longer than {_MAX_CREDENTIAL} characters")
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise InvalidParamsError(f"pushNotificationConfig.{field} must be one line of printable ASCII")


def shown(task_id: str, identifier: str, url: str, credentials: PushCredentials) -> TaskPushNotificationConfig:
    """Return the configuration as its owner may read it: with the token, but without the scheme's credentials."""
    config = TaskPushNotificationConfig(task_id=task_id, id=identifier, url=url, token=credentials.token)
    if credentials.scheme or credentials.secret:
        config.authentication.CopyFrom(AuthenticationInfo(scheme=credentials.scheme))
    return config


def listed(
    configs: Sequence[TaskPushNotificationConfig], request: ListTaskPushNotificationConfigsRequest
) -> ListTaskPushNotificationConfigsResponse:
    """Return one page of the configurations, ordered by id. The page token is the last id on the page."""
    left = [config for config in configs if config.id > request.page_token]
    page = left[: request.page_size] if request.page_size > 0 else left
    following = page[-1].id if len(page) < len(left) else ""
    return ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=following)
