"""Canonical JSON and its hashes. Equal values have equal encodings in every reconcile and every version."""

import hashlib
import json
from typing import Any

# `json.dumps` creates an encoder for each call, which takes longer than encoding a small object.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Any) -> str:
    return _ENCODER.encode(value)


def sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest(value: Any) -> str:
    """Return `sha256:<hex>` of the canonical JSON."""
    return f"sha256:{sha256_hex(canonical_json(value))}"


def short_hash(value: Any) -> str:
    """Return the first ten hexadecimal digits of the hash, for use in names, labels and annotations."""
    return sha256_hex(canonical_json(value))[:10]
