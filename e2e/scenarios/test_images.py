"""The images of the product contain the bytecode of every module that their programs import."""

from collections.abc import Callable

import pytest
from e2e.cluster.image_list import AGENT, GATEWAY, OPERATOR, Image
from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.scenarios import workloads
from tests.support.machine import ceiling

WITHOUT_BYTECODE = """
import importlib, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
specs = [spec for module in tuple(sys.modules.values()) if (spec := getattr(module, "__spec__", None))]
assert len(specs) > 300, "the program imports its libraries"
print(*sorted(spec.name for spec in specs if spec.cached and not os.path.exists(spec.cached)))
"""
PROGRAMS = {
    AGENT: ("fleetwright_agent.app", "fleetwright_agent.turn.assembly", "langchain.agents"),
    GATEWAY: ("fleetwright_gateway.app",),
    OPERATOR: ("fleetwright_operator.__main__", "kopf"),
}


@pytest.mark.parametrize("image", PROGRAMS, ids=lambda image: image.name)
def test_start_of_an_image_compiles_no_module(
    image: Image, kubectl: Kubectl, built: list[Built], new_namespace: Callable[[], str]
) -> None:
    namespace = new_namespace()
    reference = next((each.pinned for each in built if each.image is image), image.reference)
    pod = workloads.pod("program", image=reference, command=workloads.SLEEP)
    pod["metadata"]["namespace"] = namespace
    kubectl.apply([pod])
    where = f"--namespace={namespace}"
    kubectl.run("wait", "--for=condition=Ready", "pod/program", where, f"--timeout={ceiling():.0f}s")
    command = ("python", "-c", WITHOUT_BYTECODE, *PROGRAMS[image])
    assert kubectl.run("exec", "program", where, "--", *command).strip() == ""
