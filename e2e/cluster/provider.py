"""What every kind of cluster offers here. Refuses to know any of them."""

from collections.abc import Sequence
from typing import Protocol

from e2e.cluster.audit import Refusal
from e2e.cluster.images import Built, Engine
from e2e.cluster.kubectl import Kubectl


class Provider(Protocol):
    name: str

    @property
    def local_base(self) -> bool:
        """Whether images stand on the local base image, for want of a registry."""
        ...

    def obstacle(self) -> str | None:
        """Why this machine cannot run it, with the remedy; nothing when it can."""
        ...

    def engine(self) -> Engine | None:
        """What builds the images; nothing when the cluster pulls published ones."""
        ...

    def up(self) -> None:
        """Makes the cluster, or finds it healthy, or repairs it."""
        ...

    def kubectl(self) -> Kubectl: ...

    def load(self, built: Sequence[Built]) -> None:
        """Makes pods find these images under both of their names."""
        ...

    def refusals(self) -> list[Refusal]:
        """What service accounts had no right to, since the cluster was made; nothing where nobody keeps a log of it."""
        ...

    def down(self) -> None:
        """Leaves nothing behind of what `up` made."""
        ...

    def status(self) -> list[str]:
        """Lines for a person."""
        ...
