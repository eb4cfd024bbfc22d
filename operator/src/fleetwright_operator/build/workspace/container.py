"""The parts that all containers of a workspace share."""

from collections.abc import Mapping
from typing import Any

from fleetwright_operator.build.pod.pod_security import container_security


def program_container(name: str, image: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {part: dict(values) for part, values in resources.items()},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
