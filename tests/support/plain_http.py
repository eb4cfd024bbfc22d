"""A TLS context for clients of plain HTTP servers on loopback. Loading the system's CA certificates is slow."""

import ssl
from typing import Final

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A context without CA certificates."""
