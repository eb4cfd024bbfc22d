"""Debian packages: the list of packages to install, and files that are unpacked from packages without installing them.

Some packages would start a service (etcd, prometheus, docker-registry). They are only unpacked into the cache. On other
systems, a message names the programs that must be on PATH.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.cluster.locking import exclusive
from e2e.cluster.parts import Unpacked
from e2e.cluster.paths import cache
from e2e.cluster.progress import ClusterError, Progress

# A file that exists if the package is installed -> the package.
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
        packages = " ".join(word for word in arguments[1:] if not word.startswith("-"))
        raise ClusterError(f"this is not a Debian system; install these packages yourself: {packages}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    # Only root may update the lists. Other users download with the lists that the machine has.
    is_old = not _updated and os.geteuid() == 0
    apt = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
    commands = [[*apt, "update", "-qq"], [*apt, *arguments]] if is_old else [[*apt, *arguments]]
    # apt locks its lists and does not wait for the lock. Builds run side by side, also those of other checkouts.
    with exclusive(cache() / "locks" / "apt", Progress()):
        for command in commands:
            done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ClusterError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-1500:]}")
        _updated = True


def install(wanted: dict[str, str], progress: Progress) -> None:
    """Install the packages whose file is missing. Without a missing package, do nothing, not even an update."""
    missing = sorted({package for sign, package in wanted.items() if not _present(sign)})
    if not missing:
        return
    if os.geteuid():
        packages = " ".join(missing)
        raise ClusterError(
            f"Debian packages are missing; run as root: apt-get install --no-install-recommends {packages}"
        )
    progress.say(f"installing {' '.join(missing)}")
    _apt("install", "-y", "-qq", "--no-install-recommends", *missing)


def unpack(recipe: Unpacked, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        work = Path(folder)
        work.chmod(0o755)  # apt downloads as a separate user
        _apt("download", "-qq", recipe.package, cwd=work)
        archive = next(work.glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive, work / "root"], check=True)
        for file in recipe.files:
            shutil.move(work / "root" / file, into / Path(file).name)
