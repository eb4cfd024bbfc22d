"""Credentials of a cluster that is created here: static bearer tokens, and the kubeconfig files that contain them.

These tokens are only for clusters on loopback and for private clusters of one machine.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import files


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("admin", ("system:masters",))
CONTROLLER_MANAGER = User("system:kube-controller-manager")
SCHEDULER = User("system:kube-scheduler")
PROXY = User("system:kube-proxy")
ROUTER = User("fleetwright:network-policies")


def node(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes",))


def tokens(file: Path, users: tuple[User, ...]) -> dict[User, str]:
    """Return the token of each user, from a file in the API server's format. The file is written once."""
    if not file.exists():
        lines = [f'{secrets.token_urlsafe(24)},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
        files.write(file, "\n".join(lines) + "\n")
    held = {line.split(",")[1]: line.split(",")[0] for line in file.read_text().splitlines()}
    return {user: held[user.name] for user in users}


def write(path: Path, *, name: str, server: str, ca: Path, token: str) -> Path:
    """Write a kubeconfig as JSON, which is also valid YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    files.write(path, json.dumps(document, indent=1))
    return path
