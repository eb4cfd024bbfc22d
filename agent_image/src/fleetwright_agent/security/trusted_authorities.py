"""The authorities that are trusted for TLS where nobody declares others: read once, for it takes tens of milliseconds.

Refuses: being added to. Whoever trusts another authority makes a context of their own.
"""

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
