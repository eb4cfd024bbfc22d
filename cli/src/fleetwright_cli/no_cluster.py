"""The sentence for a missing kubeconfig, the same for commands that run kubectl and for the Kubernetes client. Pure.

Both report a missing kubeconfig as another problem. kubectl then tries to connect to `localhost:8080`, which may also
be the address of a configured cluster.
"""

from typing import Final

NO_CLUSTER: Final = "no cluster is configured; set KUBECONFIG, or give --context"
_SIGNS: Final = (
    "localhost:8080 was refused",  # kubectl
    "current-context must exist",  # kubectl config view --minify
    "No configuration found",  # the Kubernetes client
    "Expected key current-context",  # the Kubernetes client
)
"""Parts of the messages of both programs for a kubeconfig that is missing or names no context."""


def lacks_cluster(message: str) -> bool:
    """Return whether an error message means that no cluster is configured, provided that no context is in use."""
    return any(sign in message for sign in _SIGNS)


def explained(message: str) -> str:
    """Return the sentence for a kubeconfig that the Kubernetes client cannot use."""
    return NO_CLUSTER if lacks_cluster(message) else f"{message.rstrip('.')}; set KUBECONFIG, or give --context"
