"""Builds the Python base image on a machine without a registry, from the distribution's own minimal system.

debootstrap builds the image once, from the mirror that apt already uses. The image is kept in the cache under the hash
of its inputs. It does not replace the published base image, which is the default in the Containerfiles.
"""

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from e2e.cluster.paths import cache
from e2e.cluster.progress import ClusterError, Progress

PACKAGES = ("python3", "ca-certificates")
# A container reads none of these files.
UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "var/lib/apt/lists",
    "var/cache",
    "var/log",
)
# The published base image has no bytecode either. The Containerfiles of the product compile what they need.
BYTECODE = "usr/lib/python3*/**/__pycache__"
CONTAINERFILE = "FROM scratch\nADD rootfs.tar /\nENV LANG=C.UTF-8\n"


def _suite() -> str:
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def mirror(targets: str, suite: str) -> str:
    """Return the mirror of a suite, from lines of `address codename component`."""
    for line in targets.splitlines():
        address, _, rest = line.partition(" ")
        if rest.split() == [suite, "main"]:
            return address.rstrip("/")
    raise ClusterError(f"apt has no source for main of {suite!r}, which the local base image is made from")


def key() -> str:
    inputs = (_suite(), platform.machine(), *PACKAGES, *UNUSED, BYTECODE, CONTAINERFILE)
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]


def context(progress: Progress) -> Path:
    """Return a folder with the Containerfile and the root file system."""
    final = cache() / "base" / key()
    if (final / "rootfs.tar").exists():
        return final
    progress.say(f"making the Python base image from {_suite()} (once, a minute)")
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    address = mirror(found.stdout, _suite())
    fresh = final.with_name(f".{key()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    root = fresh / "root"
    root.mkdir(parents=True)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", _suite(), str(root), address]
    done = subprocess.run(["nice", "-n", "10", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"debootstrap failed:\n{done.stdout[-1500:]}")
    _strip(root)
    tar = ["tar", "--numeric-owner", "--sort=name", "-C", str(root), "-cf", str(fresh / "rootfs.tar"), "."]
    subprocess.run(tar, check=True)
    shutil.rmtree(root)
    (fresh / "Containerfile").write_text(CONTAINERFILE)
    fresh.rename(final)
    return final


def _strip(root: Path) -> None:
    for folder in tuple(root.glob(BYTECODE)):
        shutil.rmtree(folder)
    for name in UNUSED:
        folder = root / name
        for entry in folder.iterdir() if folder.exists() else ():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
