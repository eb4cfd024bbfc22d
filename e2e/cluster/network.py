"""The network of a local node: one network namespace with a virtual cable to the host, and no way out.

The host routes to pods and services, so tests reach them directly. Programs enter the namespace with nsenter, because
`ip netns exec` remounts /sys and hides the cgroups.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.identity import Identity
from e2e.cluster.processes import Process, start_time, terminate


def enter(identity: Identity) -> tuple[str, ...]:
    return ("nsenter", f"--net={identity.namespace}")


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def exists(identity: Identity) -> bool:
    """Return True if the network namespace exists, and not only its file, which survives a restart of the machine."""
    probe = subprocess.run([*enter(identity), "true"], capture_output=True, check=False)
    return probe.returncode == 0 and Path(f"/sys/class/net/{identity.name}").exists()


def create(identity: Identity) -> None:
    if exists(identity):
        return
    remove(identity)
    inside = enter(identity)
    _run("ip", "netns", "add", identity.name)
    _run("ip", "link", "add", identity.name, "type", "veth", "peer", "name", "eth0", "netns", identity.name)
    _run("ip", "address", "add", f"{identity.host_address}/24", "dev", identity.name)
    _run("ip", "link", "set", identity.name, "up")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "address", "add", f"{identity.node_address}/24", "dev", "eth0")
    _run(*inside, "ip", "link", "set", "eth0", "up")
    _run(*inside, "ip", "route", "add", "default", "via", identity.host_address)
    _run(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for destination in (identity.services, identity.pods):
        _run("ip", "route", "replace", destination, "via", identity.node_address)


def remove(identity: Identity) -> None:
    """Delete the network. The routes disappear together with the cable."""
    subprocess.run(["ip", "link", "delete", identity.name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", identity.name], capture_output=True, check=False)


def _inhabitants(identity: Identity) -> Iterator[Process]:
    try:
        ours = identity.namespace.stat()
    except FileNotFoundError:
        return
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            theirs = (entry / "ns" / "net").stat()
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue
        started = start_time(int(entry.name))
        if (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino) and started is not None:
            yield Process(name, int(entry.name), started)


def end_inhabitants(identity: Identity) -> None:
    """Kill the processes that still run in the namespace, mainly the shims of containers.

    The namespace is used by nothing else.
    """
    for process in list(_inhabitants(identity)):
        process.signal(signal.SIGKILL)
    for process in list(_inhabitants(identity)):
        terminate(process)
