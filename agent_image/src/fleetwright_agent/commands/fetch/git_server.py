"""Connections to a git server over HTTP: credentials, certificate authorities, the proxy, redirects and errors.

Error messages contain no credentials. Credentials reach the server only: through a proxy they are sent inside the TLS
tunnel to the server (RFC 9110 §9.3.6), and never in a request that the proxy reads.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import urllib3
from dulwich.client import (
    HttpGitClient,
    HTTPProxyUnauthorized,
    HTTPUnauthorized,
    default_urllib3_manager,
    default_user_agent_string,
)
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository
from urllib3.exceptions import HTTPError, ProxyError
from urllib3.util.ssl_ import create_urllib3_context

from fleetwright_agent.config.mounted_files import ConfigurationError, SourceUnavailable

_TIMEOUT_SECONDS: Final = 15.0
"""A connection that takes longer, or a server that is silent for longer, has failed. Git servers send a byte every five
seconds while they prepare a pack (`uploadpack.keepAlive`). Two attempts end before the deadline of a probe's pod."""
_PAUSE_SECONDS: Final = 1.0
_LATER: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""The statuses of a server that cannot answer now. `git http-backend` answers with 500 if it refuses a commit."""
_CREDENTIAL_KEYS: Final = ("username", "password", "token")
_UNKNOWN_AUTHORITY: Final = (18, 19, 20, 21)
"""The codes of X509_verify_cert(3) for a certificate whose authority is not trusted."""


class UnreachableServer(Exception):  # noqa: N818 - describes the server
    """The git server could not be reached, or cannot answer now. A later attempt may succeed.

    The text completes a sentence that begins with the server.
    """


class _ServerFailedError(HTTPError):
    """A response says that the server cannot answer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitServer:
    """A repository's server, and how it is reached."""

    url: str
    credentials: Path | None = None
    """A folder with the files token, or username and password."""
    ca_file: Path | None = None
    """Certificate authorities in PEM. They are trusted for the server and the proxy, in addition to the system's."""
    proxy_url: str | None = None
    """An HTTP proxy for all requests. Without it, environment variables may name one."""
    timeout_seconds: float = _TIMEOUT_SECONDS

    @property
    def path(self) -> str:
        """The path of the repository on the server."""
        return urlsplit(self.url).path

    @property
    def proxy_label(self) -> str:
        """The name of the proxy in messages."""
        return "the proxy of the environment" if self.proxy_url is None else f"the proxy {self.proxy_url}"

    def __str__(self) -> str:
        return self.url if self.proxy_url is None else f"{self.url}, through {self.proxy_label},"


def retry_unreachable(attempt: Callable[[], None], server: GitServer, *, patience: float) -> None:
    """Call `attempt` again for `patience` seconds while it raises UnreachableServer.

    The network of a new pod may need some seconds until it works.

    Raises: SourceUnavailable: The server was not reachable in that time.
    """
    started = time.monotonic()
    while True:
        try:
            attempt()
        except UnreachableServer as error:
            if time.monotonic() - started >= patience:
                raise SourceUnavailable(f"{server} {error}") from error
        else:
            return
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def explain_errors(server: GitServer) -> Iterator[None]:
    """Turn the errors of dulwich and of HTTP into errors of this program, which contain no credentials.

    Raises:
        ConfigurationError: The server or the proxy requires other credentials, or there is no such repository.
        SourceUnavailable: The server does not answer as a git server, or a certificate is not trusted.
        UnreachableServer: The server cannot be reached, or cannot answer now.
    """
    try:
        yield
    except HTTPUnauthorized:
        remedy = "check the Secret" if server.credentials else "name a Secret in source.git.secretRef"
        raise ConfigurationError(f"{server.url} requires authentication; {remedy}") from None
    except HTTPProxyUnauthorized:
        remedy = "let the proxy accept the pod without credentials"
        raise ConfigurationError(f"{server.proxy_label} requires authentication; {remedy}") from None
    except HTTPError as error:
        raise_network_error(server, error)  # dulwich wraps only some of the errors while it reads the response.
    except NotGitRepository:
        raise ConfigurationError(f"{server.url} is not a readable git repository") from None
    except (GitProtocolError, HangupException) as error:
        raise_network_error(server, error)
        raise SourceUnavailable(f"{server} does not answer as a git server: {type(error).__name__}") from error


def raise_network_error(server: GitServer, error: Exception) -> None:
    """Raise an error of this program if the cause is the network. Return otherwise.

    Raises:
        SourceUnavailable: The certificate of the server or of the proxy is not trusted. It may be replaced later.
        UnreachableServer: The server cannot be reached, or cannot answer now.
    """
    causes = list(_iterate_causes(error))
    if not any(isinstance(cause, HTTPError) for cause in causes):
        return
    by_proxy = any(isinstance(cause, ProxyError) for cause in causes)
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise SourceUnavailable(_describe_certificate(server, cause, by_proxy=by_proxy)) from error
    statuses = [f"cannot answer now ({cause})" for cause in causes if isinstance(cause, _ServerFailedError)]
    reasons = [f"cannot be reached: {cause.original_error}" for cause in causes if isinstance(cause, ProxyError)]
    described = statuses or (reasons if server.proxy_url else [])
    raise UnreachableServer(described[0] if described else "cannot be reached") from error


def _describe_certificate(server: GitServer, error: ssl.SSLCertVerificationError, *, by_proxy: bool) -> str:
    holder = server.proxy_label if by_proxy else server.url
    if error.verify_code not in _UNKNOWN_AUTHORITY:
        remedy = f"correct the certificate of the {'proxy' if by_proxy else 'server'}"
    elif server.ca_file is None:
        remedy = "name the Secret with its authority in source.git.caSecretRef"
    else:
        remedy = "put its authority into the Secret of source.git.caSecretRef"
    return f"the certificate of {holder} is not trusted ({error.verify_message}); {remedy}"


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those that it wraps. urllib3 keeps them as causes, reasons and arguments."""
    pending: list[Any] = [error]
    seen: list[BaseException] = []
    while pending:
        current = pending.pop(0)
        if isinstance(current, BaseException) and current not in seen:
            seen.append(current)
            yield current
            wrapped = (getattr(current, name, None) for name in ("reason", "original_error"))
            pending += [current.__cause__, current.__context__, *wrapped, *current.args]


def git_client(server: GitServer) -> HttpGitClient:
    """Return a client for the server of a repository, which follows no redirect to another origin.

    Raises: ConfigurationError: The folder has no credentials, the file has no certificates, or a proxy would read the
        credentials.
    """
    parts = urlsplit(server.url)
    name, password = _read_credentials(server.credentials)
    base = f"{parts.scheme}://{parts.netloc}"
    authorities = _public_authorities() if server.ca_file is None else _read_authorities(server.ca_file)
    pool = _build_pool(server, base, authorities)
    if password is not None and parts.scheme != "https" and isinstance(pool, _SingleOriginProxyPool):
        # dulwich reads only the variable in lower case.
        remedy = "remove source.git.proxyURL" if server.proxy_url is not None else "add its host to no_proxy"
        raise ConfigurationError(
            f"source.git.secretRef: {server.proxy_label} reads the credentials of an http address; use an https"
            f" address in source.git.url, or {remedy}"
        )
    return HttpGitClient(
        base, username=name, password=password, timeout=server.timeout_seconds, quiet=True, pool_manager=pool
    )


def _build_pool(server: GitServer, base: str, authorities: ssl.SSLContext) -> "_SingleOriginPool":
    if server.proxy_url is not None:
        return _SingleOriginProxyPool(
            server.proxy_url,
            headers={"User-Agent": default_user_agent_string()},
            timeout=server.timeout_seconds,
            cert_reqs="CERT_REQUIRED",
            ssl_context=authorities,
            proxy_ssl_context=authorities,
        )
    pool = default_urllib3_manager(
        None,
        base_url=base,
        timeout=server.timeout_seconds,
        pool_manager_cls=_SingleOriginPool,
        proxy_manager_cls=_SingleOriginProxyPool,
    )
    if server.ca_file is not None:
        pool.connection_pool_kw["ssl_context"] = authorities
    return cast("_SingleOriginPool", pool)


class _SingleOriginPool(urllib3.PoolManager):
    """A pool that follows redirects only within the origin of its first request (RFC 6454).

    The URL of a Skill must not cause the pod to send requests to another server, inside or outside the cluster.
    """

    _first: tuple[str | None, str | None, int | None] | None = None

    def urlopen(  # type: ignore[override] # the parent's stub leaves the keywords untyped
        self, method: str, url: str, redirect: bool = True, **keywords: Any
    ) -> urllib3.BaseHTTPResponse:
        """Send a request.

        Raises:
            ConfigurationError: A redirect leads to another origin.
            HTTPError: The server cannot be reached, or it cannot answer now.
        """
        parts = urllib3.util.parse_url(url)
        origin = (parts.scheme, parts.host, parts.port)
        self._first = self._first or origin
        if origin != self._first:
            there = f"{parts.scheme}://{parts.netloc}"
            raise ConfigurationError(
                f"the git server redirects to another server, {there}; use its address in source.git.url"
            )
        # The caller tries again. By default urllib3 waits as long as the server asks for, which may be hours.
        keywords.setdefault("retries", urllib3.Retry(3, connect=0, read=0, respect_retry_after_header=False))
        response = super().urlopen(method, url, redirect=redirect, **keywords)
        if response.status in _LATER:
            response.close()
            raise _ServerFailedError(f"status {response.status}")
        return response


class _SingleOriginProxyPool(_SingleOriginPool, urllib3.ProxyManager):
    """The same pool, for requests through the declared proxy, or through the one that environment variables name.

    It sends CONNECT for an https URL, and the whole request for an http URL.
    """


def _public_authorities() -> ssl.SSLContext:
    context = create_urllib3_context()
    context.load_default_certs()
    return context


def _read_authorities(file: Path) -> ssl.SSLContext:
    """Return TLS settings that trust the file's authorities in addition to those of the system.

    Raises: ConfigurationError: The file cannot be read, or contains no certificates.
    """
    secret = "the Secret of source.git.caSecretRef"  # noqa: S105 - a text
    try:
        text = file.read_text(encoding="ascii")
    except OSError:
        raise ConfigurationError(f"{secret} has no key {file.name!r}; add it, or set caSecretRef.key") from None
    except UnicodeDecodeError:
        text = ""
    context = _public_authorities()
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        remedy = "put the certificates of the authorities into it"
        raise ConfigurationError(f"{secret} contains no valid PEM under its key {file.name!r}; {remedy}") from None
    return context


def _read_credentials(folder: Path | None) -> tuple[str | None, str | None]:
    if folder is None:
        return None, None
    found = {file: (folder / file).read_text().strip() for file in _CREDENTIAL_KEYS if (folder / file).is_file()}
    password = found.get("password") or found.get("token")
    if not password:
        raise ConfigurationError("the Secret of source.git.secretRef needs the key token, or username and password")
    return found.get("username", "git"), password
