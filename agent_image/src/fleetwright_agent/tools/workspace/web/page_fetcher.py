"""Reads pages over HTTP. Every address, also that of a redirect, must belong to a host that the configuration names.

A host that is named exactly may have a private address, as other hosts in the configuration may. A host that a pattern
such as `*.example.com` names must have a public address, because others may control the names below it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from fleetwright_a2a.outbound.bounded_responses import BoundedTransport, TooLarge
from fleetwright_a2a.outbound.pinned_http import DeniedAddress, PinnedTransport, Resolve, resolve
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget, UnusableUrl, target_of
from fleetwright_agent.tools.port import ToolBlocked, ToolError
from fleetwright_agent.tools.workspace.web.charsets import decoded, media_type_of

MOST_BYTES: Final = 5 * 1024 * 1024
_MOST_REDIRECTS: Final = 10
_PORTS: Final = (80, 443)
_ANY: Final = "*."
_TEXT_TYPES: Final = frozenset(
    {"application/json", "application/xml", "application/javascript", "application/x-yaml", "application/yaml"}
)
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_OK: Final = range(200, 300)
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class WebPage:
    text: str
    is_html: bool


class PageFetcher:
    def __init__(self, hosts: Sequence[str], transport: httpx.AsyncBaseTransport) -> None:
        """Args: `hosts` are the allowed hosts; `*.example.com` names all hosts below example.com."""
        self._exact = frozenset(host for host in hosts if not host.startswith(_ANY))
        self._below = tuple(host.removeprefix("*") for host in hosts if host.startswith(_ANY))
        self._client = httpx.AsyncClient(
            transport=BoundedTransport(transport, document=MOST_BYTES, stream=0),
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # One jar would serve all callers.
            timeout=None,  # noqa: S113 - the whole call has one time limit
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def fetch(self, url: str, *, seconds: float) -> WebPage:
        """Raises: ToolError."""
        try:
            async with asyncio.timeout(seconds):
                return await self._fetched(url)
        except TimeoutError:
            raise ToolError(f"the page did not arrive within {seconds:g} s") from None
        except TooLarge:
            raise ToolError(f"the page is larger than {MOST_BYTES} bytes, or is compressed") from None
        except DeniedAddress:
            raise ToolBlocked("the address of this host is not one that this agent may reach") from None
        except httpx.HTTPError:
            raise ToolError("the page cannot be reached; go on without it") from None

    async def _fetched(self, url: str) -> WebPage:
        for _ in range(_MOST_REDIRECTS + 1):
            self._check(url)
            async with self._client.stream("GET", url, headers={"Accept": "text/*, application/json"}) as response:
                if response.status_code not in _REDIRECTS:
                    return await _page(response)
                url = _target(response)
        raise ToolError(f"the page redirects more than {_MOST_REDIRECTS} times")

    def _check(self, url: str) -> None:
        """Raises: ToolError: the agent may not read this URL."""
        try:
            # A long query does not matter here; `target_of` limits the URLs of a configuration.
            target = target_of(url.partition("#")[0].partition("?")[0])
        except UnusableUrl as error:
            raise ToolError(f"url: {error}") from None
        if target.port not in _PORTS:
            raise ToolBlocked("only the ports 80 and 443 are allowed")
        if target.host not in self._exact and not target.host.endswith(self._below):
            raise ToolBlocked(f"{target.host} is not among the hosts that this agent may read; do not try another way")


def web_transport(
    hosts: Sequence[str], *, denied: tuple[Network, ...] = (), resolving: Resolve = resolve
) -> PinnedTransport:
    """Return a transport that resolves each host once, and connects only to allowed addresses."""
    exact = [host for host in hosts if not host.startswith(_ANY)]
    named = frozenset(EgressTarget(host, port) for host in exact for port in _PORTS)
    policy = EgressPolicy(hosts=named, everywhere=len(exact) < len(hosts), denied=denied)
    return PinnedTransport(policy, resolving=resolving)


def _target(response: httpx.Response) -> str:
    """Return the URL to which a response redirects. Raises: ToolError."""
    try:
        following = response.url.join(response.headers.get("Location", ""))
    except httpx.InvalidURL:
        raise ToolError("the page redirects to an address that is not a URL") from None
    if response.url.scheme == "https" and following.scheme != "https":
        raise ToolBlocked("the page redirects from https to http")
    return str(following)


async def _page(response: httpx.Response) -> WebPage:
    if response.status_code not in _OK:
        raise ToolError(f"the host answered with status {response.status_code}")
    kind, charset = media_type_of(response.headers.get("Content-Type", "text/plain"))
    if not (kind.startswith("text/") or kind in _TEXT_TYPES | _HTML_TYPES or kind.endswith(("+json", "+xml"))):
        raise ToolError(f"the page is {kind}, not text")
    is_html = kind in _HTML_TYPES
    return WebPage(decoded(await response.aread(), charset=charset, is_html=is_html), is_html)
