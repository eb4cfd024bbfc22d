"""Fixtures of the scenarios: the cluster, with the product's images in it.

The cluster stays up for the next run; `make down` removes it. Several pytest workers share it: the first one brings it
up, loads the images and installs the chart. A scenario with the mark `alone` runs while no other scenario does.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
from e2e.cluster import commands, deploy
from e2e.cluster.image_list import OFFLINE
from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.ports import next_name
from e2e.cluster.progress import CANNOT_RUN, SILENT, Progress
from e2e.cluster.provider import Provider
from e2e.cluster.run_folder import reaped_session
from e2e.scenarios.core import CORE
from e2e.scenarios.fleet import Fleet
from e2e.scenarios.taking_turns import first_of_all, turn
from tests.support.machine import ceiling, outer_ceiling


@pytest.fixture(scope="session")
def progress() -> Progress:
    return Progress()


MONITORING = "monitoring"
QUICKSTART = CHECKOUT / "examples/quickstart"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "exhaustive: not a core scenario; `make test-cluster` leaves it out")
    config.addinivalue_line("markers", "alone: disturbs other scenarios; runs while no other does")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the scenario's turn before its fixtures are set up; the wait is no part of its time."""
    with turn(CHECKOUT / "build" / "scenarios", alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_sessionstart() -> None:
    """Report why this ring cannot run on a machine, instead of failing in every test."""
    name = commands.choose(None, os.environ)
    obstacle = commands.provider(name, SILENT).obstacle()
    if obstacle:
        pytest.exit(obstacle, returncode=CANNOT_RUN)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the scenarios that are not core as exhaustive, and limit the time of each.

    The first test waits while the cluster is created. This time must not count as the test's own.
    """
    for item in items:
        item.add_marker(pytest.mark.timeout(outer_ceiling(), func_only=True))
        if f"{item.path.name}::{getattr(item, 'originalname', item.name)}" not in CORE:
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="session")
def shown(pytestconfig: pytest.Config) -> Callable[[], AbstractContextManager[None]]:
    """Show the progress while the cluster is created, because minutes of silence look like a hang."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled if capture else nullcontext


@pytest.fixture(scope="session")
def provider(
    progress: Progress, shown: Callable[[], AbstractContextManager[None]], tmp_path_factory: pytest.TempPathFactory
) -> Provider:
    with shown(), first_of_all(tmp_path_factory.getbasetemp(), "cluster") as first:
        name = commands.choose(None, os.environ)
        return commands.cluster_up(name, progress) if first else commands.provider(name, progress)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(
    provider: Provider,  # noqa: ARG001 - it has to be there first
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """End all processes of an interrupted session and remove its folder.

    The cluster is older than the session and stays.
    """
    with reaped_session(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(scope="session")
def kubectl(provider: Provider) -> Kubectl:
    return provider.kubectl()


@pytest.fixture(scope="session", autouse=True)
def rights(provider: Provider) -> Iterator[None]:
    """Check that the operator and the gateway never request anything that the chart's RBAC does not allow.

    A release that a scenario uninstalls loses its RBAC before its pod ends. The refused requests of that pod do not
    count.
    """
    before = len(provider.refusals())
    yield
    ours = (":fleetwright-operator", ":fleetwright-gateway")
    refused = [refusal for refusal in provider.refusals()[before:] if refusal.account.endswith(ours)]
    assert refused == [], "the chart's rights are too small"


@pytest.fixture(scope="session")
def built(
    provider: Provider,
    progress: Progress,
    shown: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Built]:
    """The product's images, built and loaded. Empty if the cluster pulls them. Later workers find the images loaded."""
    with shown(), first_of_all(tmp_path_factory.getbasetemp(), "images"):
        return commands.load_images(provider, progress)


@pytest.fixture(scope="session")
def python_image(built: list[Built]) -> str:
    """An image with Python and the project's CLI, for the servers and callers of the scenarios."""
    return next((each.pinned for each in built if each.image is OFFLINE), OFFLINE.reference)


@pytest.fixture
def new_namespace(kubectl: Kubectl) -> Iterator[Callable[[], str]]:
    """Create namespaces that enforce Pod Security `restricted`, and delete them afterwards."""
    made: list[str] = []

    def make() -> str:
        name = next_name("scenario")
        kubectl.apply([deploy.namespace(name)])
        made.append(name)
        return name

    yield make
    if made:
        kubectl.run("delete", "namespace", *made, "--wait=false")


@pytest.fixture(scope="session")
def operator(
    provider: Provider, built: list[Built], progress: Progress, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """The cluster with the chart installed. Pods of the namespace `monitoring` may scrape agents."""
    values = deploy.values(built) | {"monitoring.namespace": MONITORING}
    helm = commands.helm_of(provider, progress)
    with first_of_all(tmp_path_factory.getbasetemp(), "operator") as first:
        if first:
            deploy.install(helm, chosen=values)
    return helm.kubectl


@pytest.fixture(scope="module")
def fleet(operator: Kubectl, python_image: str) -> Iterator[Fleet]:
    """A namespace of this test module, with the offline model."""
    name = next_name("fleet")
    operator.apply([deploy.namespace(name)])
    there = Fleet(operator, name, python_image)
    there.apply_folder(QUICKSTART / "model.yaml")
    there.run("rollout", "status", "deployment/offline-model", f"--timeout={ceiling():.0f}s")
    yield there
    operator.run("delete", "namespace", name, "--wait=false")
