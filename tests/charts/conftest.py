"""The helm and promtool executables of this system, and the chart as helm renders it."""

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.parts import PARTS
from tests.support.machine import is_in_ci

CHART = Path(__file__).parents[2] / "charts" / "fleetwright"


def _find_program(name: str, part: str) -> str:
    """Return the program where `e2e.cluster.binaries` finds it. Skip the test if it does not exist, and fail in CI."""
    folder = binaries.find(PARTS[part])
    if folder is None:
        message = f"{name} is not on this machine; `python -m e2e.cluster binaries {part}` provides it"
        if is_in_ci():
            pytest.fail(message)
        pytest.skip(message)
    return str(folder / name)


@pytest.fixture(scope="session")
def helm(process_ring: None) -> str:
    return _find_program("helm", "helm")


@pytest.fixture(scope="session")
def promtool(process_ring: None) -> str:
    return _find_program("promtool", "prometheus")


@pytest.fixture
def run(helm: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    homes = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def helm_run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helm, *words], capture_output=True, text=True, env={**os.environ, **homes}, check=False)

    return helm_run


@pytest.fixture(scope="session")
def rendered_documents() -> dict[str, bytes]:
    """The pickled documents of each rendering, by its values as YAML. A test gets copies, which it may change."""
    return {}


@pytest.fixture
def render(
    run: Callable[..., subprocess.CompletedProcess[str]],
    rendered_documents: dict[str, bytes],
    tmp_path: Path,
) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that renders the chart for a fixed version of Kubernetes, once for each set of values.

    A helm that was built without release flags assumes an old version.

    Without `namespaces` the operator manages the whole cluster, which the values must allow explicitly.
    """

    def rendered(**values: Any) -> list[dict[str, Any]]:
        values = values if values.get("namespaces") else {"rbac": {"clusterWideSecrets": True}, **values}
        text = yaml.safe_dump(values)
        if text not in rendered_documents:
            file = tmp_path / "values.yaml"
            file.write_text(text)
            done = run("template", "fw", str(CHART), "-n", "system", "-f", str(file), "--kube-version", "1.36.0")
            assert done.returncode == 0, done.stderr
            # The parser in C takes an eighth of the time for the CRDs.
            documents = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
            rendered_documents[text] = pickle.dumps([document for document in documents if document])
        documents_of_values: list[dict[str, Any]] = pickle.loads(rendered_documents[text])
        return documents_of_values

    return rendered
