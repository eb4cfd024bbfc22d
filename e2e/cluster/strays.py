"""The files that a node's programs leave outside their folders. Files of other programs are kept."""

import socket
from pathlib import Path

from e2e.cluster.identity import Identity

LOG_LINKS = Path("/var/log/containers")
CNI_RESULTS = Path("/var/lib/cni/results")
KUBELET = Path("/var/lib/kubelet")
SHIMS = Path("/run/containerd/s")


def remove(identity: Identity) -> None:
    """Remove the files once the node's processes and its own folders are gone."""
    for path in SHIMS.glob("*"):
        if not _listens(path):
            path.unlink(missing_ok=True)
    for link in LOG_LINKS.glob("*"):
        if link.is_symlink() and str(link.readlink()).startswith(f"{identity.data}/"):
            link.unlink()
    for result in CNI_RESULTS.glob(f"{identity.name}-*"):
        container = result.name.removeprefix(f"{identity.name}-").partition("-")[0]
        for file in CNI_RESULTS.glob(f"*-{container}-*"):
            file.unlink()
    ours = (identity.data.parent, identity.sockets.parent)
    for folder in (*ours, LOG_LINKS, CNI_RESULTS, CNI_RESULTS.parent, SHIMS, SHIMS.parent):
        _remove_empty(folder)
    if not identity.data.parent.exists():  # no other local cluster runs on this machine
        _remove_kubelet()


def _listens(path: Path) -> bool:
    """Return True if a process listens on the socket, as the shim of a running container does."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def _remove_empty(folder: Path) -> None:
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_kubelet() -> None:
    """Remove the kubelet's socket.

    A kubelet creates it in a fixed folder. On a machine with a real kubelet, this folder has more files.
    """
    left = KUBELET / "device-plugins" / "kubelet.sock"
    if {path for path in KUBELET.rglob("*") if not path.is_dir()} <= {left}:
        left.unlink(missing_ok=True)
        _remove_empty(left.parent)
        _remove_empty(KUBELET)
