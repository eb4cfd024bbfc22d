"""For clients of what speaks plain HTTP on loopback: to load a system's authorities takes as long as many a test."""

import ssl
from typing import Final

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody."""
