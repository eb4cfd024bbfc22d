"""The Secrets of one agent: one per client for whoever calls it, and the folder that its pod reads."""

import base64
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.canonical import canonical_json, sha256_hex
from fleetwright_operator.desired.callers import Tokens, callers_document, peer_token_files
from fleetwright_operator.desired.manifest import Manifest, Owner, manifest


def client_secret(owner: Owner, *, client: str, token: str) -> Manifest:
    annotations = {names.TOKEN_DIGEST_ANNOTATION: sha256_hex(token)}
    name = names.agent_client(owner.name, client)
    return _secret(owner, name, {names.TOKEN_KEY: token}, annotations)


def auth_secret(owner: Owner, tokens: Tokens) -> Manifest:
    return _secret(owner, names.agent_auth(owner.name), auth_files(tokens))


def auth_files(tokens: Tokens) -> dict[str, str]:
    return {names.CALLERS_KEY: canonical_json(callers_document(tokens)), **peer_token_files(tokens)}


def _secret(owner: Owner, name: str, files: dict[str, str], annotations: dict[str, str] | None = None) -> Manifest:
    # `data`, never `stringData`: the server keeps a key that a later stringData no longer names.
    data: dict[str, Any] = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
    return {
        **manifest("v1", "Secret", name=name, owner=owner, annotations=annotations),
        "type": "Opaque",
        "data": data,
    }
