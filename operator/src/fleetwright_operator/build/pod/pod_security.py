"""The security settings of every pod: Pod Security "restricted" and a little more. No field of the API weakens them."""

from collections.abc import Iterable
from typing import Any, Final

from fleetwright_api import names
from fleetwright_operator.settings import Settings

LINUX: Final = {"kubernetes.io/os": "linux"}
"""The node selector of every pod. All images and security settings are those of Linux."""


def pod_security(settings: Settings) -> dict[str, Any]:
    ids = {"runAsUser": names.USER_ID, "runAsGroup": names.USER_ID, "fsGroup": names.USER_ID}
    return {
        "runAsNonRoot": True,
        # The admission of OpenShift sets ids from the range of the namespace, and refuses all others.
        **({} if settings.omit_ids else ids),
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def sealed_pod(settings: Settings) -> dict[str, Any]:
    """Return the fields of every pod.

    They withhold the service account token and the addresses of Services from the pod, and place it on Linux.
    """
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": dict(LINUX),
        "securityContext": pod_security(settings),
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
