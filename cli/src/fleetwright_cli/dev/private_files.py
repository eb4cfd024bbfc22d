"""The files of a local fleet, which only their owner can read: configurations and tokens."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from fleetwright_cli.dev.manifests import InvalidFleet


def write_configuration(root: Path, files: Mapping[str, str]) -> None:
    """Make the configuration folder contain exactly these files. Memory in other folders stays."""
    configuration = root / "etc/fleetwright"
    stale = {path for path in configuration.rglob("*") if path.is_file()} - {root / name for name in files}
    for path in stale:
        path.unlink()
    for name, content in files.items():
        write_private(root / name, content)


def write_private(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(content)
    fresh.replace(path)


class LocalTokens:
    """Tokens by name, kept in one private file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        try:
            self._known = dict(json.loads(path.read_text()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError):
            raise InvalidFleet(f"{path} cannot be read; remove it to create new credentials") from None

    def of(self, names: list[str]) -> Mapping[str, str]:
        self._known = {name: self._known.get(name) or secrets.token_urlsafe(32) for name in names}
        write_private(self._path, json.dumps(self._known))
        return self._known

    def client(self, agent: str, client: str) -> str:
        """Return the token of a client of an agent. Raises: KeyError."""
        return self._known[f"client.{agent}.{client}"]
