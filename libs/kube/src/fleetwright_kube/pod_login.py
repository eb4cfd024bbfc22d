"""Logs in to the API server with the service account of the pod, without kopf, whose import takes 25 MB of memory."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetwright_kube.errors import TerminalError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class PodCredentials:
    server: str
    authority: Path
    """The file with the certificates of the API server's authority."""
    token: str

    def __repr__(self) -> str:
        return f"PodCredentials({self.server})"

    def as_ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def as_http_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def pod_login(environ: Mapping[str, str], *, folder: Path = SERVICE_ACCOUNT) -> PodCredentials:
    """Read the credentials from the pod's folder. The kubelet rotates the token, so each call reads it again.

    Raises:
        TerminalError: The process does not run in a pod with a service account.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        token = ""
    if not host or not token:
        raise TerminalError("no credentials for a cluster; run in a pod with a service account")
    address = f"[{host}]" if ":" in host else host
    return PodCredentials(f"https://{address}:{port}", folder / "ca.crt", token)
