"""Starts programs as an unprivileged user in a user namespace of its own, as bubblewrap does for a user.

The kernel does not hold root of the machine to RLIMIT_NPROC, so tests that run as root become another user first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.machine import ceiling

_UNPRIVILEGED = 65532
_SYSTEM_PROGRAMS = "/usr/bin:/usr/local/bin"
_PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
uid = int(sys.argv[1])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: else the files in /proc/self belong to root
gid = os.getgid()
if libc.unshare(0x10000000):  # CLONE_NEWUSER
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
    with open("/proc/self/" + name, "w") as file:
        file.write(text)
os.execv(sys.argv[2], sys.argv[2:])
"""


def unprivileged_user() -> int:
    return os.getuid() or _UNPRIVILEGED


def namespace_prefix() -> list[str]:
    """Return the command that starts the program behind it in a new user namespace. Skip if the kernel refuses one."""
    prefix = [system_python(), "-I", "-c", _PROGRAM, str(unprivileged_user())]
    tried = subprocess.run(
        [*prefix, system_python(), "-c", ""], cwd="/", capture_output=True, text=True, timeout=ceiling(), check=False
    )
    if tried.returncode:
        pytest.skip(f"this kernel gives no user namespace to unprivileged users: {tried.stderr.strip()[-200:]}")
    return prefix


def system_python() -> str:
    """Return an interpreter that other users can read too. That of the tests may lie in a home folder."""
    return shutil.which("python3", path=_SYSTEM_PROGRAMS) or os.path.realpath(sys.executable)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Give a folder that belongs to the unprivileged user. Those of pytest are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="fleetwright-") as name:
        os.chown(name, unprivileged_user(), -1)
        Path(name).chmod(0o755)
        yield Path(name)
