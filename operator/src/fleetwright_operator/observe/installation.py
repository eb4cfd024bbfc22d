"""Which installation of Fleetwright manages an object.

Two installations that serve one namespace would undo each other's writes for ever. So each object belongs to the
installation that wrote its status first, and every other installation writes nothing to it. A person moves an object to
another installation with an annotation.
"""

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.settings import Settings


def read_installation(entry: CachedObject) -> str:
    """Return the installation that manages the object, as `<namespace>/<name>`; empty for a new object."""
    named: str = entry.annotations.get(names.INSTALLATION_ANNOTATION, "")
    return named or str(entry.projection["status"].get("installation", ""))


def is_managed_elsewhere(entry: CachedObject, settings: Settings) -> bool:
    return read_installation(entry) not in {"", settings.installation}
