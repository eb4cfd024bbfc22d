"""Empties released volumes of the local cluster and makes them available again: one process beside the control plane.

`python -m e2e.cluster.volume_recycler KUBECTL KUBECONFIG FOLDER` watches the volumes until it is ended. It empties only
folders directly below FOLDER. Kubernetes also has a recycler. It empties one volume at a time in a separate pod, and
fails to release a volume if that pod ends before the watch starts.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from e2e.cluster.kubectl import Kubectl
from e2e.cluster.progress import ClusterError

_WATCH = ("get", "pv", "--watch", "-o", "jsonpath={.metadata.name} {.status.phase} {.spec.hostPath.path}{'\\n'}")
_AVAILABLE = json.dumps({"spec": {"claimRef": None}})
_PAUSE_SECONDS = 1.0


def empty(volume: Path) -> None:
    """Delete what the folder contains, and keep the folder, which pods may have mounted."""
    for path in volume.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def recycle(lines: Iterable[str], kubectl: Any, folder: Path) -> None:
    """Empty the volume of each line `<name> Released <path>`, and remove the reference to its claim."""
    for line in lines:
        name, phase, path = (*line.split(), "", "", "")[:3]
        if phase == "Released" and Path(path).parent == folder:
            empty(Path(path))
            kubectl.run("patch", "pv", name, "--type=merge", f"--patch={_AVAILABLE}")


def main() -> None:
    program, kubeconfig, folder = map(Path, sys.argv[1:])
    kubectl = Kubectl(program, kubeconfig, cache=kubeconfig.parent / "recycler-cache")
    while True:  # the API server ends each watch after some minutes
        try:
            with kubectl.following(*_WATCH) as lines:
                recycle(lines, kubectl, folder)
        except (ClusterError, OSError) as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
