"""One way to write JSON and to hash it, so that equal content has equal bytes in every pass and version."""

import hashlib
import json
from typing import Any

# `json.dumps` makes an encoder for each call, which takes longer than to encode a small object.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Any) -> str:
    return _ENCODER.encode(value)


def sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest(value: Any) -> str:
    """`sha256:<hex>` of the canonical JSON."""
    return f"sha256:{sha256_hex(canonical_json(value))}"


def short_hash(value: Any) -> str:
    """The first ten hexadecimal digits: what object names end with."""
    return sha256_hex(canonical_json(value))[:10]
