"""Requests a new token for a client of an agent, and waits until it is in use."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import click

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient

_PAUSE_SECONDS: Final = 0.5


def rotate(
    cluster: ClusterClient,
    agent: str,
    *,
    client: str,
    wait: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Annotate the client's Secret. The operator adds a next token, and uses it once the agent accepts it.

    Raises:
        click.ClickException: The Secret does not exist, or the new token is not in use within `wait` seconds.
    """
    secret = names.agent_client(agent, client)
    before = cluster.secret(secret)[names.TOKEN_KEY]
    cluster.annotate_secret(secret, {names.ROTATE_ANNOTATION: now().isoformat(timespec="microseconds")})
    if not wait:
        click.echo(f"requested a new token; Secret {secret} has it in some seconds")
        return
    waited = 0.0
    while cluster.secret(secret)[names.TOKEN_KEY] == before:
        if waited >= wait:
            raise click.ClickException(f"Secret {secret} has no new token after {wait:g} s; the request stays")
        sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    click.echo(f"Secret {secret} has a new token. The previous one is accepted until its overlap ends.")
