"""An archive for krew: built from the lock, unpacked into an empty folder, and run without any installed package."""

import importlib.util
import platform
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.machine import ceiling

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
PLATFORM = f"{sys.platform}-{MACHINE}"


def _module() -> ModuleType:
    """Return the script as a module. It lies in a folder that is no package."""
    spec = importlib.util.spec_from_file_location("krew_archives", ROOT / "cli/krew/archives.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = _module().build("v1.2.3", PLATFORM, tmp_path_factory.mktemp("archive"), pythons=[PYTHON])
    return path


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as krew makes it, with a link to the program in a folder of the PATH."""
    folder = tmp_path_factory.mktemp("krew")
    with tarfile.open(built) as archive:
        archive.extractall(folder / "store", filter="data")
    (folder / "bin").mkdir()
    for name in ("kubectl-fleetwright", "kubectl_complete-fleetwright"):
        (folder / "bin" / name).symlink_to(folder / "store/kubectl-fleetwright")
    (folder / "bin/python3").symlink_to(Path(sys.base_prefix) / f"bin/python{PYTHON}")
    return folder


def _run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [folder / "bin" / words[0], *words[1:]], env=environment, capture_output=True, text=True, timeout=ceiling()
    )


@pytest.mark.exhaustive
def test_plugin_runs_without_installed_packages(unpacked: Path) -> None:
    version = _run(unpacked, "kubectl-fleetwright", "--version")
    assert version.stdout == "kubectl fleetwright, version 1.2.3\n", version.stderr
    assert "_FLEETWRIGHT_COMPLETE" in _run(unpacked, "kubectl-fleetwright", "completion", "bash").stdout
    assert "suspend\n" in _run(unpacked, "kubectl_complete-fleetwright", "team", "").stdout
    without_cluster = _run(unpacked, "kubectl-fleetwright", "agents")
    assert (without_cluster.returncode, "set KUBECONFIG" in without_cluster.stderr) == (1, True), without_cluster.stderr
    local = _run(unpacked, "kubectl-fleetwright", "offline-orders")
    assert (local.returncode, "install the package fleetwright" in local.stderr) == (1, True), local.stderr


@pytest.mark.exhaustive
def test_plugin_names_the_versions_of_python_that_it_needs(unpacked: Path, tmp_path: Path) -> None:
    other = tmp_path / "store"
    (other / "lib/cp399").mkdir(parents=True)
    program = other / "kubectl-fleetwright"
    program.write_bytes((unpacked / "store/kubectl-fleetwright").read_bytes())
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=ceiling())
    assert done.returncode == 1
    assert done.stderr == f"kubectl fleetwright: needs python3 of version 3.99; the one in your PATH is {PYTHON}\n"


def test_archive_has_equal_bytes_for_equal_files() -> None:
    files = {"lib/b": b"2", "LICENSE": b"text", "kubectl-fleetwright": b"program", "lib/a": b"1"}
    compressed = _module().compressed
    assert compressed(files) == compressed(dict(reversed(files.items())))


@pytest.mark.exhaustive
def test_archive_has_only_what_krew_installs(built: Path) -> None:
    with tarfile.open(built) as archive:
        members = archive.getmembers()
    assert {member.name.partition("/")[0] for member in members} == {"kubectl-fleetwright", "LICENSE", "lib"}
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(0, 0, "")}
    assert [member.name for member in members if member.mode & 0o111] == ["kubectl-fleetwright"]


def test_archives_name_what_cannot_be_built(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "cli/krew/archives.py"), "--output", str(tmp_path)]
    for options, says in (
        (["--version=1.2", PLATFORM], "VERSION: '1.2'"),
        (["--version=v1.2.3", "windows-amd64"], "PLATFORMS: 'windows-amd64'"),
    ):
        done = subprocess.run([*script, *options], capture_output=True, text=True, timeout=ceiling())
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    assert list(tmp_path.iterdir()) == []
