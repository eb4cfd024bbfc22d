"""The security settings of every pod: Pod Security "restricted" and a little more. No field of the API weakens them."""

from collections.abc import Iterable
from typing import Any

from fleetwright_api import names


def pod_security() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": names.USER_ID,
        "runAsGroup": names.USER_ID,
        "fsGroup": names.USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def sealed_pod() -> dict[str, Any]:
    """Return pod fields that withhold the service account token and the addresses of Services from the pod."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
    }


def pull_secrets(found: Iterable[str]) -> dict[str, Any]:
    """Return the pod field for these Secrets, deduplicated; nothing if there are none."""
    secrets = list(dict.fromkeys(found))
    return {"imagePullSecrets": [{"name": name} for name in secrets]} if secrets else {}


def http_probe(path: str, *, port: str, period: int, failures: int, timeout: int = 5) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }
