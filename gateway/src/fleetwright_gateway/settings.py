"""The settings of the gateway, read once from the environment that the chart sets."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fleetwright_kube.pod_login import SERVICE_ACCOUNT

_PREFIX: Final = "FLEETWRIGHT_GATEWAY_"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    url: str = "http://fleetwright-gateway"
    """The address inside the cluster. It is also the issuer of pair tokens."""
    public_url: str = ""
    """The address that callers outside of the cluster use. Cards and the registry name it; empty means `url`."""
    publisher: str = ""
    """The domain in the identifiers of ARD entries; empty means the host of the address that callers use."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose agents are served; empty means all."""
    audience: str = "fleetwright-gateway"
    """The audience that a caller's Kubernetes token must have."""
    issuers: tuple[str, ...] = ()
    """Issuers of callers' tokens besides the API server."""
    accept_api_server_tokens: bool = False
    """True if tokens with an audience of the API server are accepted as well."""
    service_account: Path = SERVICE_ACCOUNT
    """The folder with the gateway's own token."""
    keys_file: Path = Path("/etc/fleetwright/gateway/keys/keys.json")
    port: int = 7880
    ops_port: int = 7881
    agent_port: int = 7870
    agent_ops_port: int = 7871
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the gateway, besides its own; `*` allows every origin."""
    proxy_cidrs: tuple[str, ...] = ()
    """Addresses of trusted proxies, such as an ingress controller, whose header `X-Forwarded-For` names the clients."""
    requests_per_minute: int = 600
    """Requests of one caller to one replica."""
    idle_seconds: float = 300.0
    """Seconds without any byte from an agent, after which its response is ended."""
    connect_seconds: float = 2.0
    wake_seconds: float = 30.0
    """Seconds for which a request waits for a sleeping agent."""
    refuse_unreported_budgets: bool = False
    """True if an agent with budgets gets no messages before its status shows them. By default the agent decides."""
    resync_seconds: float = 180.0
    drain_seconds: float = 30.0
    """Seconds that open requests get when the process stops."""

    @property
    def outside_url(self) -> str:
        return self.public_url or self.url

    @property
    def origins(self) -> frozenset[str]:
        parts = urlsplit(self.outside_url)
        return frozenset({*self.allowed_origins, f"{parts.scheme}://{parts.netloc}"})

    @property
    def publisher_domain(self) -> str:
        return self.publisher or urlsplit(self.outside_url).hostname or ""


def settings_from(environ: Mapping[str, str]) -> GatewaySettings:
    """Read the settings from an environment.

    Raises:
        ValueError: A variable has an unusable value; the message names the variable.
    """
    given = {field.name: f"{_PREFIX}{field.name.upper()}" for field in fields(GatewaySettings)}
    defaults = GatewaySettings()
    found = {
        name: _parsed(variable, environ[variable], getattr(defaults, name))
        for name, variable in given.items()
        if variable in environ
    }
    if "FLEETWRIGHT_NAMESPACES" in environ:
        found["namespaces"] = _listed(environ["FLEETWRIGHT_NAMESPACES"])
    for text in found.get("proxy_cidrs", ()):
        _require_network(given["proxy_cidrs"], text)
    for name in ("url", "public_url"):
        if text := found.get(name):
            found[name] = _url(given[name], text)
    return GatewaySettings(**found)


def _parsed(variable: str, text: str, default: Any) -> Any:
    match default:
        case bool():
            return _switch(variable, text)
        case int() | float():
            return type(default)(_number(variable, text))
        case tuple():
            return _listed(text)
        case _:
            return type(default)(text) if isinstance(default, str) else Path(text)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _number(variable: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{variable} must be a number, not {text!r}") from None
    if not 0 < value < 1e9:
        raise ValueError(f"{variable} must be above zero, not {text!r}")
    return value


def _switch(variable: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{variable} must be true or false, not {text!r}")
    return text == "true"


def _require_network(variable: str, text: str) -> None:
    try:
        ip_network(text)
    except ValueError as error:
        raise ValueError(f"{variable} must be networks such as 10.0.0.0/8, separated by commas: {error}") from None


def _url(variable: str, text: str) -> str:
    parts = urlsplit(text)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.netloc
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError(f"{variable} must be an address such as https://agents.example.com, not {text!r}")
    return text.rstrip("/")
