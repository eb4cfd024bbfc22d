"""The environments of both servers, each installed once from its lock into the cache of the machine.

Our server uses the environment of the image. The developers' environment has more packages, and the server would import
them.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from e2e.cluster.locking import exclusive
from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.progress import Progress
from e2e.cluster.uv import folder as uv_folder


def python_of(name: str) -> Path:
    """Return the interpreter of the environment that `locks/<name>.txt` describes."""
    lock = CHECKOUT / f"locks/{name}.txt"
    folder = cache() / f"bench-{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    # Two benchmarks may start at once on a machine where the environment is missing.
    with exclusive(cache() / "locks" / folder.name, Progress()):
        if not (folder / ".installed").exists():
            uv = str(uv_folder() / "uv")
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
            sync = [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--python", str(folder)]
            subprocess.run([*sync, "--require-hashes", str(lock)], check=True)
            (folder / ".installed").touch()
    return folder / "bin/python"
