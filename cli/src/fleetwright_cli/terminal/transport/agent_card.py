"""The public part of an agent's card that the terminal uses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from fleetwright_cli.terminal.transport.errors import RequestError

CARD_PATH: Final = "/.well-known/agent-card.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSummary:
    name: str
    description: str = ""
    version: str = ""
    endpoint: str = ""
    """The address for JSON-RPC, at the address that the user has given."""
    extensions: frozenset[str] = frozenset()
    skills: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()


def card_summary(card: Any, *, address: str) -> CardSummary:
    """Return the summary of a card.

    The address of the interface is rewritten to the address that the user has given, perhaps that of a tunnel. So the
    token is never sent to another address from the card.

    Raises:
        RequestError: The document is not a card, the agent does not support JSON-RPC of A2A 1.0, or the address of
            the interface is invalid.
    """
    if not isinstance(card, Mapping):
        raise RequestError(f"{address} does not serve an A2A agent card; check the address")
    interfaces = [each for each in _list(card.get("supportedInterfaces")) if isinstance(each, Mapping)]
    spoken = [
        each
        for each in interfaces
        if each.get("protocolBinding") == "JSONRPC" and str(each.get("protocolVersion", "")).startswith("1.")
    ]
    if not spoken:
        raise RequestError(f"the agent at {address} does not support JSON-RPC of A2A 1.0")
    capabilities = card.get("capabilities")
    declared = _list(capabilities.get("extensions")) if isinstance(capabilities, Mapping) else []
    return CardSummary(
        name=str(card.get("name", "")),
        description=str(card.get("description", "")),
        version=str(card.get("version", "")),
        endpoint=below(address, path_of(str(spoken[0].get("url", "")))),
        extensions=frozenset(str(each.get("uri")) for each in declared if isinstance(each, Mapping)),
        skills=tuple(str(each.get("id")) for each in _list(card.get("skills")) if isinstance(each, Mapping)),
        input_modes=tuple(map(str, _list(card.get("defaultInputModes")))),
    )


def path_of(url: str) -> str:
    """Return the path of an interface's address. Raises: RequestError."""
    try:
        return urlsplit(url).path
    except ValueError:
        raise RequestError("the card of the agent has an invalid url; it must begin with http:// or https://") from None


def below(address: str, path: str) -> str:
    """Return the path of an interface at an address. At a gateway the path includes the agent's own.

    Raises:
        RequestError: The path would lead to another host.
    """
    address = address.rstrip("/")
    base = urlsplit(address).path
    found = f"{address.removesuffix(base)}{path}" if base and path.startswith(f"{base}/") else f"{address}{path}"
    if (path and not path.startswith("/")) or _origin(found) != _origin(address):
        raise RequestError(
            f"the card of the agent at {address} has an invalid url; it must begin with http:// or https://"
        )
    return found


def _origin(address: str) -> tuple[str, str]:
    """Return the scheme, and the host and port with the credentials. An address that is not valid has its own."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", address
    return parts.scheme, parts.netloc


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
