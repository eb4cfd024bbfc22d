"""A2A 0.3 over HTTP+JSON.

This binding differs from JSON-RPC only in the conversion of requests and responses. Like 0.3 itself, it cannot list
tasks.
"""

from dataclasses import replace
from typing import Final

from fleetwright_a2a.dialects.deferred_conversions import DeferredConversions
from fleetwright_a2a.dialects.v03 import V03

_CONVERSIONS: Final = DeferredConversions("fleetwright_a2a.dialects.v03_rest_conversions")

V03_REST: Final = replace(
    V03,
    reads={operation: _CONVERSIONS.read(operation) for operation in V03.reads},
    writes={operation: _CONVERSIONS.write(operation) for operation in V03.writes},
    teller=_CONVERSIONS.teller,
    conversions=_CONVERSIONS.module,
)
