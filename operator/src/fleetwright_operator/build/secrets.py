"""The Secrets of one agent: one per client, with its token, and one with the files that the pod reads.

Each Secret carries the records of its credentials as an annotation. The records are stored nowhere else.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.build.auth_files import (
    Tokens,
    administrators_document,
    callers_document,
    operators_document,
    peer_token_files,
)
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.credentials.push_keys import PushKeys
from fleetwright_operator.credentials.rotating_token import RotatingToken, record


def client_secret(owner: Owner, *, client: str, credential: RotatingToken) -> Manifest:
    following = {names.NEXT_KEY: credential.next.text} if credential.next else {}
    end = credential.current.expires
    return _secret(
        owner,
        names.agent_client(owner.name, client),
        {names.TOKEN_KEY: credential.current.text, **following},
        {
            **_records({client: credential}),
            **({names.EXPIRES_ANNOTATION: format_timestamp(end)} if end is not None else {}),
        },
    )


def auth_secret(
    owner: Owner, tokens: Tokens, *, pending: Mapping[str, str], administrators: Sequence[str] = ()
) -> Manifest:
    """Return the Secret with the files that the pod reads.

    Args:
        owner: The agent.
        tokens: Its credentials.
        pending: By the digest of each token that is not in use yet: when the token was added.
        administrators: The names of clients.
    """
    waiting = {names.PENDING_ANNOTATION: canonical_json(pending)} if pending else {}
    callers = tokens.gateway.callers if tokens.gateway else ()
    direct = {names.DIRECT_CALLERS_ANNOTATION: canonical_json(callers)} if callers else {}
    annotations = {**_records(tokens.peers), **waiting, **direct}
    listed = administrators_document(administrators)
    files = {
        names.CALLERS_KEY: canonical_json(callers_document(tokens)),
        **({names.GATEWAY_KEY: tokens.gateway.file} if tokens.gateway else {}),
        **({names.OPERATOR_KEY: canonical_json(operators_document(tokens))} if tokens.operators else {}),
        **({names.ADMINISTRATORS_KEY: canonical_json(listed)} if administrators else {}),
        **({names.WORKSPACE_KEY: tokens.workspace[0]} if tokens.workspace else {}),
        **peer_token_files(tokens),
    }
    return _secret(owner, names.agent_auth(owner.name), files, annotations)


def workspace_secret(owner: Owner, digests: Sequence[str]) -> Manifest:
    """Return the Secret with the digests of the tokens that a workspace accepts."""
    lines = "".join(f"{digest}\n" for digest in digests)
    return _secret(owner, names.workspace(owner.name), {names.DIGESTS_KEY: lines}, {})


def push_secret(owner: Owner, keys: PushKeys) -> Manifest:
    annotations = {names.RECORDS_ANNOTATION: canonical_json({"asked": keys.asked})} if keys.asked else {}
    return _secret(owner, names.agent_push(owner.name), {names.PUSH_KEY: keys.file}, annotations)


def _records(credentials: Mapping[str, RotatingToken]) -> dict[str, str]:
    return {
        names.RECORDS_ANNOTATION: canonical_json({name: record(credential) for name, credential in credentials.items()})
    }


def _secret(owner: Owner, name: str, files: dict[str, str], annotations: dict[str, str]) -> Manifest:
    # `data` instead of `stringData`: the server keeps a key that a later stringData no longer contains.
    data: dict[str, Any] = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
    return {
        **manifest("v1", "Secret", name=name, owner=owner, annotations=annotations),
        "type": "Opaque",
        "data": data,
    }
