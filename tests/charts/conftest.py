"""The helm and promtool executables of this system, and the chart as helm renders it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "charts" / "fleetwright"


def _program(name: str, part: str) -> str:
    """Return the program from the environment variable of its name, from PATH, or from the cache."""
    named = os.environ.get(name.upper()) or shutil.which(name)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fleetwright" / "bin"
    found = named or next((str(path) for path in sorted(cache.glob(f"{part}-*/{name}"))), None)
    if found is None:
        message = f"{name} is not on this machine: set {name.upper()}, put it on PATH, or run make up once"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def helm(process_ring: None) -> str:
    return _program("helm", "helm")


@pytest.fixture(scope="session")
def promtool(process_ring: None) -> str:
    return _program("promtool", "prometheus")


@pytest.fixture
def run(helm: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    homes = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def helm_run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helm, *words], capture_output=True, text=True, env={**os.environ, **homes}, check=False)

    return helm_run


@pytest.fixture
def render(run, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that renders the chart for a fixed version of Kubernetes.

    A helm that was built without release flags assumes an old version.

    Without `namespaces` the operator manages the whole cluster, which the values must allow explicitly.
    """

    def rendered(**values: Any) -> list[dict[str, Any]]:
        file = tmp_path / "values.yaml"
        values = values if values.get("namespaces") else {"rbac": {"clusterWideSecrets": True}, **values}
        file.write_text(yaml.safe_dump(values))
        done = run("template", "fw", str(CHART), "-n", "system", "-f", str(file), "--kube-version", "1.36.0")
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return rendered
