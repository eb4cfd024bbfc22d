"""The package parses as Python 3.9, imports the standard library only, and its zipapp runs without any package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.workspace import SOURCE

from fleetwright_workspace.install import install

MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_parses_as_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_modules_import_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"fleetwright_workspace", "_sha2"}  # `_sha2` is new in Python 3.12
    imported: set[str] = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert "json" in imported
    assert imported - allowed == set()


def test_zipapp_has_equal_bytes(tmp_path: Path) -> None:
    first, second = install(str(tmp_path / "one")), install(str(tmp_path / "two"))
    assert Path(first).read_bytes() == Path(second).read_bytes()


@pytest.mark.process
def test_zipapp_runs_without_packages(tmp_path: Path) -> None:
    program = install(str(tmp_path))
    done = subprocess.run([sys.executable, "-S", "-E", program, "--home", "x"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("--socket: required\noptions: --socket VALUE --root VALUE --home VALUE")
