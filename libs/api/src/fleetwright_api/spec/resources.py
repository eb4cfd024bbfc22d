"""The resources of a container. As in Kubernetes, a quantity is a number or a string."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import named


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAmounts:
    cpu: int | str | None = None
    memory: int | str | None = None
    ephemeral_storage: int | str | None = named("ephemeral-storage", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec:
    """Requests and limits. If neither is set, the defaults of the operator's installation apply."""

    requests: ResourceAmounts | None = None
    limits: ResourceAmounts | None = None
