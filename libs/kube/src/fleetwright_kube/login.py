"""Logs in to the API server with the pod's service account or a kubeconfig, using kopf's login functions."""

from kopf import ConnectionInfo, OperatorSettings, login_with_kubeconfig, login_with_service_account

from fleetwright_kube.errors import TerminalError


def login() -> ConnectionInfo:
    """Read the credentials from disk. Each call reads them again.

    Raises:
        TerminalError: There are no credentials.
    """
    settings = OperatorSettings()
    found = login_with_service_account(settings=settings) or login_with_kubeconfig(settings=settings)
    if found is None:
        raise TerminalError("no credentials for a cluster; run in a pod with a service account, or set KUBECONFIG")
    return found
