"""The port that every kind of cluster implements."""

from collections.abc import Sequence
from typing import Protocol

from e2e.cluster.audit import Refusal
from e2e.cluster.images import Built, Engine
from e2e.cluster.kubectl import Kubectl


class Provider(Protocol):
    name: str

    @property
    def local_base(self) -> bool:
        """True if images are built on the local base image, because there is no registry."""
        ...

    def obstacle(self) -> str | None:
        """Why this machine cannot run it, with the remedy; nothing when it can."""
        ...

    def engine(self) -> Engine | None:
        """Return the image builder, or None if the cluster pulls published images."""
        ...

    def up(self) -> None:
        """Makes the cluster, or finds it healthy, or repairs it."""
        ...

    def kubectl(self) -> Kubectl: ...

    def load(self, built: Sequence[Built]) -> None:
        """Makes pods find these images under both of their names."""
        ...

    def refusals(self) -> list[Refusal]:
        """Return the refused requests of service accounts since the cluster was created; empty without an audit log."""
        ...

    def down(self) -> None:
        """Leaves nothing behind of what `up` made."""
        ...

    def status(self) -> list[str]:
        """Lines for a person."""
        ...
