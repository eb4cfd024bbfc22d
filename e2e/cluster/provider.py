"""The interface that every kind of cluster implements."""

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
        """Return the reason why this machine cannot run the cluster, with the remedy, or None if it can."""
        ...

    def engine(self) -> Engine | None:
        """Return the image builder, or None if the cluster pulls published images."""
        ...

    def up(self) -> None:
        """Create the cluster, or repair it, or find that it is healthy."""
        ...

    def kubectl(self) -> Kubectl: ...

    def load(self, built: Sequence[Built]) -> None:
        """Load these images under both of their names, so that pods can use them."""
        ...

    def refusals(self) -> list[Refusal]:
        """Return the refused requests of service accounts since the cluster was created; empty without an audit log."""
        ...

    def down(self) -> None:
        """Remove everything that `up` created."""
        ...

    def status(self) -> list[str]:
        """Return lines of text for a person."""
        ...
