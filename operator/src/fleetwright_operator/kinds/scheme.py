"""The scheme of the operator: its field manager and group, its resources, and their projections."""

from typing import Final

from fleetwright_api import names
from fleetwright_kube.scheme import Scheme
from fleetwright_operator.kinds.projections import PROJECTIONS
from fleetwright_operator.kinds.resources import RESOURCES

SCHEME: Final = Scheme(
    field_manager=names.FIELD_MANAGER,
    group=names.GROUP,
    hash_annotation=names.HASH_ANNOTATION,
    resources=RESOURCES,
    projections=PROJECTIONS,
)
