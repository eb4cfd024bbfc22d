"""Debian packages: the one list of what is installed, and files unpacked from packages that are not.

A package whose service Debian would start (etcd, prometheus, docker-registry) is only unpacked into the cache.
Refuses to guess on other systems: there the message names the programs to put on PATH.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.cluster.parts import Unpacked
from e2e.cluster.progress import ClusterError, Progress

# A file that shows the package is there -> the package.
NODE_PACKAGES = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
IMAGE_PACKAGES = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
}
_updated = False


def _present(sign: str) -> bool:
    if sign.startswith("/"):
        return Path(sign).exists()
    return shutil.which(sign, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def _apt(*arguments: str, cwd: Path | None = None) -> None:
    global _updated
    if not shutil.which("apt-get"):
        raise ClusterError("this is not a Debian system; install these yourself: " + " ".join(arguments[1:]))
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    commands = [["apt-get", *arguments]] if _updated else [["apt-get", "update", "-qq"], ["apt-get", *arguments]]
    for command in commands:
        done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-1500:]}")
    _updated = True


def install(wanted: dict[str, str], progress: Progress) -> None:
    """Installs the packages whose sign is missing; does nothing, not even an update, when none is."""
    missing = sorted({package for sign, package in wanted.items() if not _present(sign)})
    if not missing:
        return
    if os.geteuid():
        raise ClusterError(f"as root: apt-get install --no-install-recommends {' '.join(missing)}")
    progress.say(f"installing {' '.join(missing)}")
    _apt("install", "-y", "-qq", "--no-install-recommends", *missing)


def unpack(recipe: Unpacked, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        work = Path(folder)
        work.chmod(0o755)  # apt fetches as a user of its own
        _apt("download", "-qq", recipe.package, cwd=work)
        archive = next(work.glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive, work / "root"], check=True)
        for file in recipe.files:
            shutil.move(work / "root" / file, into / Path(file).name)
