"""Which requests are translated: JSON-RPC calls in an older version of A2A that the agent's card does not list. Pure.

Calls in a version that neither the gateway nor the agent's card knows are refused (A2A 1.0, §3.6.2), because some
agents serve them in another version. Other requests pass unchanged. A body is parsed only if the agent lacks an older
version, and if the header `A2A-Version` names a missing version or is absent. A test compares the table with the
dialects, which the gateway imports only when it translates, because of their size.
"""

from collections.abc import Mapping
from typing import Any, Final

from a2a.utils.errors import A2AError

from fleetwright_a2a.dialects.versions import dialect_of
from fleetwright_a2a.http.envelope import opened, parse
from fleetwright_gateway.proxy.request_kinds import is_rpc

_NATIVE: Final = "1.0"
_OLDER: Final = frozenset({"0.3", "0.1"})
_ALL: Final = _OLDER | {_NATIVE}
_RPC: Final = "JSONRPC"
_V03: Final = frozenset({"0.3"})
_V01: Final = frozenset({"0.1"})
METHODS: Final[Mapping[str, frozenset[str]]] = {
    "agent/getAuthenticatedExtendedCard": _V03,
    "message/send": _V03,
    "message/sendStream": _V03,
    "message/sendSubscribe": _V03,
    "message/stream": _V03,
    "tasks/cancel": _OLDER,
    "tasks/get": _OLDER,
    "tasks/pushNotification/get": _V01,
    "tasks/pushNotification/set": _V01,
    "tasks/pushNotificationConfig/delete": _V03,
    "tasks/pushNotificationConfig/get": _V03,
    "tasks/pushNotificationConfig/list": _V03,
    "tasks/pushNotificationConfig/set": _V03,
    "tasks/resubscribe": _OLDER,
    "tasks/send": _V01,
    "tasks/sendSubscribe": _V01,
}
"""The methods of the older versions, with the versions that have them."""


def missing_versions(card: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the older versions that the agent does not support over JSON-RPC.

    Nothing is missing for an agent without a card or without A2A 1.0, because the gateway translates to 1.0 only.
    """
    listed = (card or {}).get("supportedInterfaces")
    interfaces = listed if isinstance(listed, list) else []
    named = {_version(each) for each in interfaces if isinstance(each, dict) and each.get("protocolBinding") == _RPC}
    if named >= _ALL:
        return frozenset()
    spoken = {dialect_of(version) for version in named if version}
    return _OLDER - spoken if _NATIVE in spoken else frozenset()


def is_unknown_version(card: Mapping[str, Any] | None, version: str) -> bool:
    """Return whether the header `A2A-Version` names a version that neither the gateway nor the agent's card knows."""
    if not version or dialect_of(version) is not None:
        return False
    listed = (card or {}).get("supportedInterfaces")
    interfaces = listed if isinstance(listed, list) else []
    known = {_minor(_version(each)) for each in interfaces if isinstance(each, dict)} - {""}
    return _minor(version) not in known


def _minor(version: str) -> str:
    """Return `Major.Minor` of a version."""
    return ".".join(version.strip().split(".")[:2])


def _version(interface: Mapping[str, Any]) -> str:
    version = interface.get("protocolVersion")
    return version if isinstance(version, str) else ""


def is_translated(missing: frozenset[str], *, verb: str, path: str, version: str, body: bytes) -> bool:
    """Return whether a request is translated.

    Args:
        missing: The versions that the agent does not support.
        verb: The HTTP method.
        path: The path at the agent.
        version: The header `A2A-Version`; empty if the caller sends none.
        body: The body of the request.
    """
    if not missing or not is_rpc(verb, path):
        return False
    if version and dialect_of(version) not in missing:
        return False
    try:
        found = METHODS.get(opened(parse(body)).method, frozenset())
    except A2AError:
        return False
    if version or len(found) < len(_OLDER):
        return bool(found & missing) or bool(version and found)
    # Without a version, a method of both versions means 0.1 for a task whose id the caller has chosen.
    return missing >= _V01
