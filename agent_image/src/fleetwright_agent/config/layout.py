"""The paths of the mounted files. This module does not read them."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Layout(BaseModel):
    """The paths of the mounted files. `root` is `/` in a pod, and another folder in tests and development."""

    model_config = ConfigDict(frozen=True)

    root: Path = Path("/")

    @property
    def configuration(self) -> Path:
        return self.root / "etc/fleetwright"

    @property
    def config_file(self) -> Path:
        return self.configuration / "agent.json"

    @property
    def card_file(self) -> Path:
        return self.configuration / "card/agent-card.json"

    @property
    def extended_card_file(self) -> Path:
        return self.configuration / "card/extended-agent-card.json"

    @property
    def log_level_file(self) -> Path:
        return self.configuration / "card/log-level"

    @property
    def auth(self) -> Path:
        return self.configuration / "auth"

    @property
    def callers_file(self) -> Path:
        return self.auth / "callers.json"

    @property
    def operator_file(self) -> Path:
        return self.auth / "operator.json"

    @property
    def administrators_file(self) -> Path:
        return self.auth / "administrators.json"

    @property
    def gateway_file(self) -> Path:
        return self.auth / "gateway.json"

    @property
    def gateway_token_file(self) -> Path:
        """The pod's own token for the gateway, which the kubelet rotates."""
        return self.root / "var/run/fleetwright/gateway/token"

    def peer_token_file(self, namespace: str, name: str) -> Path:
        return self.auth / f"peer.{namespace}.{name}"

    @property
    def workspace_token_file(self) -> Path:
        return self.auth / "workspace"

    def skill(self, name: str) -> Path:
        return self.configuration / "skills" / name

    def secret(self, relative: str) -> Path:
        """Return the path of a file that the configuration names.

        Raises:
            ValueError: The path is absolute or contains `..`.
        """
        if Path(relative).is_absolute() or ".." in Path(relative).parts:
            raise ValueError(f"{relative!r} must be a path below the configuration folder")
        return self.configuration / relative

    @property
    def memory(self) -> Path:
        return self.root / "var/lib/fleetwright"
