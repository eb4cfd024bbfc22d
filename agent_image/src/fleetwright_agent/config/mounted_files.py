"""Loads and checks the mounted files before the agent is built. An error is one sentence with its remedy."""

import json
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout


class ConfigurationError(Exception):
    """The mounted files or the arguments are invalid; the text names the problem and the remedy."""


class UnusableContent(ConfigurationError):  # noqa: N818 - describes the content
    """The content of a fixed commit or image cannot be used, so a retry fails too. The text names the problem."""


class SourceUnavailable(Exception):  # noqa: N818 - describes the remote service
    """A remote service does not answer correctly; a retry may succeed. The text names the service."""


def load(layout: Layout) -> AgentConfig:
    """Raises: ConfigurationError."""
    file = layout.config_file
    try:
        return AgentConfig.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigurationError(f"{file.name} is not valid: {first_fault(error)}") from error


def first_fault(error: ValidationError) -> str:
    """Return the location and the reason of the first error; never the input, which may be secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(step) for step in first["loc"]) or "the document"
    return f"{place}: {first['msg']}"


def check_memory(folder: Path) -> None:
    """Raises: ConfigurationError."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink(missing_ok=True)  # The previous pod may do the same at this moment.
    except OSError as error:
        message = f"the memory folder {folder} cannot be written: {error.strerror}; check the volume and its owner"
        raise ConfigurationError(message) from error


def check_addresses(config: AgentConfig, layout: Layout) -> None:
    """Check that the card names no loopback address, if the configuration requires that.

    Raises:
        ConfigurationError: The card names one. An unreadable card is accepted here; the readiness probe reports it.
    """
    if not config.require_routable_url:
        return
    with suppress(OSError, ValueError, KeyError, TypeError):
        for interface in json.loads(layout.card_file.read_bytes())["supportedInterfaces"]:
            if is_this_machine(interface["url"]):
                message = f"the card names {interface['url']}, which others cannot reach: set a2a.publicURL"
                raise ConfigurationError(f"{message}, or set a2a.requireRoutableURL to false")


def is_this_machine(url: str) -> bool:
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return True  # An invalid URL leads to no other host.
    try:
        address = ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def check_secrets(part: BaseModel, layout: Layout) -> None:
    """Check that every file that the configuration names (`…_file`) is readable and not empty.

    Raises:
        ConfigurationError: A file is unreadable or empty.
    """
    for field, relative in _files(part):
        try:
            empty = not layout.secret(relative).read_bytes().strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"{relative}, named by {field}, cannot be read: {why}") from error
        if empty:
            raise ConfigurationError(f"{relative}, named by {field}, is empty")


def _files(part: BaseModel, place: str = "") -> Iterator[tuple[str, str]]:
    for name, value in part:
        parts = value if isinstance(value, tuple) else (value,)
        for index, inner in enumerate(parts):
            step = f"{place}{name}[{index}]" if isinstance(value, tuple) else f"{place}{name}"
            if isinstance(inner, BaseModel):
                yield from _files(inner, f"{step}.")
            elif name.endswith("_file") and inner is not None:
                yield step, str(inner)
