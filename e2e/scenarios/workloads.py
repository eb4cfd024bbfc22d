"""Manifests of the scenarios' servers and callers. All of them comply with Pod Security `restricted`."""

from collections.abc import Mapping, Sequence
from typing import Any

PORT = 8080
MISSING_IMAGE = "127.0.0.1:1/fleetwright/there-is-no-such-image:1"
"""The node refuses the connection to this registry at once, so that the pull fails without a timeout."""
SERVE = ("python", "-m", "http.server", str(PORT), "--directory", "/tmp")
SLEEP = ("sleep", "3600")


def pod(
    name: str,
    *,
    image: str,
    command: Sequence[str],
    labels: Mapping[str, str] | None = None,
    claim: str | None = None,
) -> dict[str, Any]:
    volume = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": list(command),
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/tmp"}],
                }
            ],
            "volumes": [{"name": "data", **volume}],
        },
    }


def service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": PORT}]},
    }


def policy(name: str, *, of: str, **rules: Any) -> dict[str, Any]:
    kinds = {"ingress": "Ingress", "egress": "Egress"}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "podSelector": {"matchLabels": {"app": of}},
            "policyTypes": [kinds[kind] for kind in rules],
            **rules,
        },
    }


def claim(name: str, *, size: str = "1Gi") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }
