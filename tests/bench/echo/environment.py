"""The reference's own environment: installed once, from its lock, into the cache of the machine."""

import hashlib
import subprocess
import sys
from pathlib import Path

from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.uv import folder as uv_folder


def reference_python() -> Path:
    lock = CHECKOUT / "locks/reference-agent.txt"
    folder = cache() / f"reference-agent-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not (folder / ".installed").exists():
        uv = str(uv_folder() / "uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        sync = [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--python", folder, "--require-hashes", lock]
        subprocess.run(sync, check=True)
        (folder / ".installed").touch()
    return folder / "bin/python"
