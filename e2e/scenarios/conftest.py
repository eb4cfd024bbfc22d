"""Fixtures of the scenarios: the cluster, with the product's images in it. Refuses to take the cluster down:
it serves the next run, and `make down` removes it.
"""

import os
import secrets
from collections.abc import Callable, Iterator

import pytest
from e2e.cluster import commands, deploy
from e2e.cluster.image_list import OFFLINE
from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider


@pytest.fixture(scope="session")
def progress() -> Progress:
    return Progress()


@pytest.fixture(scope="session")
def provider(progress: Progress) -> Provider:
    return commands.cluster_up(commands.choose(None, os.environ), progress)


@pytest.fixture(scope="session")
def kubectl(provider: Provider) -> Kubectl:
    return provider.kubectl()


@pytest.fixture(scope="session")
def built(provider: Provider, progress: Progress) -> list[Built]:
    """The product's images, loaded; empty where the cluster pulls them."""
    return commands.load_images(provider, progress)


@pytest.fixture(scope="session")
def python_image(built: list[Built]) -> str:
    """An image with Python and our command line, for servers and callers of the scenarios' own."""
    return next((each.pinned for each in built if each.image is OFFLINE), OFFLINE.reference)


@pytest.fixture
def new_namespace(kubectl: Kubectl) -> Iterator[Callable[[], str]]:
    """Makes namespaces that enforce Pod Security `restricted`, and deletes them afterwards."""
    made: list[str] = []

    def make() -> str:
        name = f"scenario-{secrets.token_hex(3)}"
        kubectl.apply([deploy.namespace(name)])
        made.append(name)
        return name

    yield make
    if made:
        kubectl.run("delete", "namespace", *made, "--wait=false")
