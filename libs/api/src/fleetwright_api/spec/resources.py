"""The resources of a container. Kubernetes accepts a quantity as a number and as a text."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import named


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAmounts:
    cpu: int | str | None = None
    memory: int | str | None = None
    ephemeral_storage: int | str | None = named("ephemeral-storage", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec:
    """Requests and limits. If neither is set, the installation's values apply."""

    requests: ResourceAmounts | None = None
    limits: ResourceAmounts | None = None
