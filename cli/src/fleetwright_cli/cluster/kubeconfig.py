"""Connects with a kubeconfig as kubectl does, also where the Kubernetes client for Python differs from kubectl.

The client ignores impersonation (`as`, `as-uid`, `as-groups`, `as-user-extra`), keeps the newline at the end of a token
file, and asks the proxy of the environment for addresses of this machine.
"""

import ipaddress
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import KUBE_CONFIG_DEFAULT_LOCATION, load_kube_config
from urllib3 import PoolManager
from urllib3._collections import HTTPHeaderDict
from urllib3.response import BaseHTTPResponse

_AUTHORIZATION: Final = "BearerToken"
Entry = Mapping[str, Any]


def connect_client(context: str | None) -> ApiClient:
    """Return a client for a context; None is the current one.

    Raises:
        kubernetes.config.ConfigException: There is no kubeconfig, or it has no such context.
    """
    configuration = Configuration()
    load_kube_config(  # type: ignore[no-untyped-call] # its package has no annotations here
        context=context, client_configuration=configuration, persist_config=False
    )
    _strip_token(configuration)
    cluster, user = _entries_of(context)
    if not cluster.get("proxy-url") and _is_loopback(configuration.host):
        configuration.proxy = None
    client = ApiClient(configuration)
    if headers := list(impersonation_headers(user)):
        pool = _ImpersonatingPool(client.rest_client.pool_manager, headers)
        client.rest_client.pool_manager = pool  # type: ignore[assignment] # the client uses no other methods of a pool
    return client


def impersonation_headers(user: Entry) -> Iterator[tuple[str, str]]:
    """Yield the headers for a user of a kubeconfig. A header of groups may occur several times.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """
    if name := user.get("as"):
        yield "Impersonate-User", str(name)
    if uid := user.get("as-uid"):
        yield "Impersonate-Uid", str(uid)
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)


class _ImpersonatingPool:
    """Sends the requests of a pool with further headers. The client itself cannot send a header twice."""

    def __init__(self, pool: PoolManager, headers: list[tuple[str, str]]) -> None:
        self._pool = pool
        self._headers = headers

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> BaseHTTPResponse:
        all_headers = HTTPHeaderDict(headers or {})
        for name, value in self._headers:
            all_headers.add(name, value)
        return self._pool.request(method, url, headers=all_headers, **options)

    def clear(self) -> None:
        self._pool.clear()


def _strip_token(configuration: Configuration) -> None:
    """Remove white space around the token now, and each time when the client reads it again."""
    read_again: Callable[[Configuration], None] | None = configuration.refresh_api_key_hook

    def strip(read: Configuration) -> None:
        if read_again is not None:
            read_again(read)
            read.refresh_api_key_hook = strip  # type: ignore[assignment] # its package declares no type
        if token := read.api_key.get(_AUTHORIZATION):
            read.api_key[_AUTHORIZATION] = token.strip()

    configuration.refresh_api_key_hook = strip  # type: ignore[assignment] # as above
    strip(configuration)


def _entries_of(context: str | None) -> tuple[Entry, Entry]:
    """Return the cluster and the user of a context. In several files, the first entry of a name counts."""
    documents = [_read(Path(path)) for path in KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep) if path]
    name = context or next((each["current-context"] for each in documents if each.get("current-context")), "")
    chosen = _find(documents, "contexts", name).get("context") or {}
    cluster = _find(documents, "clusters", chosen.get("cluster")).get("cluster") or {}
    return cluster, _find(documents, "users", chosen.get("user")).get("user") or {}


def _read(path: Path) -> Entry:
    try:
        found = yaml.safe_load(path.expanduser().read_text())
    except OSError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _find(documents: list[Entry], field: str, name: object) -> Entry:
    entries = (each for document in documents for each in document.get(field) or ())
    return next((each for each in entries if each.get("name") == name), {})


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
