"""What a node's programs leave at places they cannot be told to avoid. Refuses what may be somebody else's."""

import json
from pathlib import Path

from e2e.cluster.identity import Identity

LOG_LINKS = Path("/var/log/containers")
CNI_RESULTS = Path("/var/lib/cni/results")
KUBELET = Path("/var/lib/kubelet")
SHIMS = Path("/run/containerd/s")


def shim_sockets(identity: Identity) -> list[Path]:
    """Asked before the node's folders go: each container's bundle tells where its shim listens."""
    found = []
    for file in (identity.sockets / "containerd").glob("io.containerd.runtime.v2.task/*/*/bootstrap.json"):
        path = Path(json.loads(file.read_text())["address"].removeprefix("unix://"))
        if path.parent == SHIMS:
            found.append(path)
    return found


def remove(identity: Identity, shims: list[Path]) -> None:
    """After the node's own folders are gone."""
    for socket in shims:
        socket.unlink(missing_ok=True)
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
    if not identity.data.parent.exists():  # no other local cluster runs here
        _remove_kubelet()


def _remove_empty(folder: Path) -> None:
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_kubelet() -> None:
    """The kubelet makes one socket at a fixed place, whatever folder it was given; a real one has more there."""
    socket = KUBELET / "device-plugins" / "kubelet.sock"
    if {path for path in KUBELET.rglob("*") if not path.is_dir()} <= {socket}:
        socket.unlink(missing_ok=True)
        _remove_empty(socket.parent)
        _remove_empty(KUBELET)
