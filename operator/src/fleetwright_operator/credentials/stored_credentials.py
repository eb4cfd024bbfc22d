"""Reads credentials from the operator's Secrets: tokens and their records, push keys and card keys.

This module reads the cache only. The reconciler treats a damaged credential as missing and creates a new one.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.credentials.keyring import Ring, read_ring
from fleetwright_operator.credentials.push_keys import PushKeys, read_keys
from fleetwright_operator.credentials.revocations import WrittenCallers, read_revocations
from fleetwright_operator.credentials.rotating_token import RotatingToken, from_record
from fleetwright_operator.credentials.tokens import is_token


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A credential as its Secret stores it."""

    credential: RotatingToken | None = None
    """None if there is no usable credential."""
    listed: int | None = None
    """When the next token was added to the callee's `callers.json`."""
    asked: str = ""
    """The rotation request on the Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallersList:
    """An agent's callers.json, and the record of its tokens that are not in use yet."""

    text: str = ""
    pending: Mapping[str, Any] = field(default_factory=dict)

    def since(self, sha256: str) -> int | None:
        """Return when the token with this digest was added, or None."""
        try:
            return parse_timestamp(self.pending[sha256]) if sha256 in self.text else None
        except (KeyError, TypeError, ValueError):
            return None


def client_tokens(cache: Cache, entry: CachedObject) -> dict[str, StoredToken]:
    prefix = names.agent_client(entry.name, "")
    return {
        client: _stored(cache, secret, client, (names.TOKEN_KEY, names.NEXT_KEY), callee=entry.id[1:])
        for secret in cache.find("child-of", *entry.id)
        if secret.kind == "Secret" and secret.name.startswith(prefix)
        for client in [secret.name.removeprefix(prefix)]
    }


def peer_tokens(cache: Cache, namespace: str, agent: str) -> dict[str, StoredToken]:
    secret = _auth_secret(cache, namespace, agent)
    peers = [names.peer_of_token_key(key) for key in secret.projection["data"]] if secret else []
    return {names.qualified(*peer): _peer_token(cache, secret, peer) for peer in peers if secret and peer}


def caller_tokens(cache: Cache, callee: CachedObject, callers: tuple[Identity, ...]) -> dict[str, RotatingToken]:
    secrets = {caller: _auth_secret(cache, *caller) for caller in callers}
    held = {caller: _peer_token(cache, secret, callee.id[1:]) for caller, secret in secrets.items() if secret}
    return {names.qualified(*caller): found.credential for caller, found in held.items() if found.credential}


def push_keys(cache: Cache, entry: CachedObject) -> tuple[PushKeys, str]:
    """Return the keys in the agent's Secret, and the rotation request on it."""
    secret = cache.get("Secret", entry.namespace, names.agent_push(entry.name))
    if secret is None or not secret.is_ours:
        return PushKeys(), ""
    granted = _mapping(secret, names.RECORDS_ANNOTATION).get("asked", "")
    return read_keys(decode_key(secret, names.PUSH_KEY), asked=str(granted)), _rotation_request(secret)


def _auth_secret(cache: Cache, namespace: str, agent: str) -> CachedObject | None:
    secret = cache.get("Secret", namespace, names.agent_auth(agent))
    return secret if secret and secret.is_ours else None


def _peer_token(cache: Cache, secret: CachedObject, peer: tuple[str, str]) -> StoredToken:
    keys = (names.peer_token_key(*peer), names.next_token_key(*peer))
    return _stored(cache, secret, names.qualified(*peer), keys, callee=peer)


def _stored(
    cache: Cache, secret: CachedObject, name: str, keys: tuple[str, str], *, callee: tuple[str, str]
) -> StoredToken:
    asked = _rotation_request(secret)
    current, following = (decode_key(secret, key) for key in keys)
    if not is_token(current):
        return StoredToken(asked=asked)
    record = _mapping(secret, names.RECORDS_ANNOTATION).get(name)
    credential = from_record(record, current=current, following=following)
    known = callers_list(cache, *callee).since(credential.next.sha256) if credential and credential.next else None
    return StoredToken(credential=credential, asked=asked, listed=known)


def _rotation_request(secret: CachedObject) -> str:
    rotation_request = secret.annotations.get(names.ROTATE_ANNOTATION)
    return short_hash(rotation_request) if rotation_request else ""


def stored_ring(entry: CachedObject | None) -> Ring:
    """Return the card keys in a Secret, or none if there is no Secret or it is damaged."""
    return read_ring(decode_key(entry, names.RING_KEY)) if entry is not None else ()


def callers_list(cache: Cache, namespace: str, agent: str) -> CallersList:
    secret = _auth_secret(cache, namespace, agent)
    if secret is None:
        return CallersList()
    return CallersList(text=decode_key(secret, names.CALLERS_KEY), pending=_mapping(secret, names.PENDING_ANNOTATION))


def written_callers(cache: Cache, namespace: str, agent: str) -> WrittenCallers:
    """Return the direct callers and the revocations in an agent's auth Secret."""
    secret = _auth_secret(cache, namespace, agent)
    if secret is None:
        return WrittenCallers()
    try:
        allowed = read_json(secret.annotations.get(names.DIRECT_CALLERS_ANNOTATION, "[]"))
        file = read_json(decode_key(secret, names.GATEWAY_KEY) or "{}")
    except ValueError:
        return WrittenCallers()
    revoked = file.get("revoked", []) if isinstance(file, dict) else []
    return WrittenCallers(
        allowed=frozenset(str(each) for each in allowed) if isinstance(allowed, list) else frozenset(),
        revoked=read_revocations(revoked if isinstance(revoked, list) else []),
    )


def _mapping(secret: CachedObject, annotation: str) -> Mapping[str, Any]:
    try:
        found = read_json(secret.annotations.get(annotation, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def decode_key(secret: CachedObject, key: str) -> str:
    """Return the text of a key, or an empty string if it cannot be decoded."""
    data: Mapping[str, Any] = secret.projection["data"]
    try:
        return base64.b64decode(data.get(key, "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
