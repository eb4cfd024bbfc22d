"""The default TLS trust store, loaded once because that takes tens of milliseconds.

The shared context must not be changed. Code that trusts other authorities creates its own context.
"""

import ssl
from functools import cache

import httpx


@cache
def default_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
