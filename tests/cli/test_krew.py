"""The krew manifest: made from the archives of a release by the script of `make krew`."""

import hashlib
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from tests.support.machine import ceiling

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
URL, HOMEPAGE = "https://example.com/releases/v1.2.3/", "https://example.com/fleetwright"


def archive(folder: Path, name: str, *files: str) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz") as opened:
        for file in files:
            opened.addfile(tarfile.TarInfo(file), io.BytesIO())
    return path


def run(folder: Path, *archives: Path, version: str = "v1.2.3", url: str = URL) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, ROOT / "cli/krew/manifest.py", "--version", version, "--url", url]
    return subprocess.run(
        [*command, "--homepage", HOMEPAGE, "--output", folder, *archives],
        capture_output=True,
        text=True,
        timeout=ceiling(),
    )


def test_krew_manifest_has_the_form_that_krew_demands(tmp_path: Path) -> None:
    unix = ("kubectl-fleetwright", "LICENSE")
    archives = [
        archive(tmp_path, "kubectl-fleetwright-linux-arm64.tar.gz", *(f"./{file}" for file in unix)),
        archive(tmp_path, "kubectl-fleetwright-darwin-arm64.tar.gz", *unix),
        archive(tmp_path, "kubectl-fleetwright-windows-amd64.tar.gz", "kubectl-fleetwright.exe", "LICENSE"),
    ]
    ended = run(tmp_path / "out", *archives)
    assert ended.returncode == 0, ended.stderr
    (path,) = (tmp_path / "out").iterdir()
    manifest = yaml.safe_load(path.read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert path.name == f"{manifest['metadata']['name']}.yaml"
    spec = manifest["spec"]
    assert set(spec) == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert (len(spec["shortDescription"]) <= 50, spec["shortDescription"][-1] != ".") == (True, True)
    for platform in spec["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "files", "bin"}
        file = tmp_path / platform["uri"].removeprefix(URL)
        assert platform["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert platform["bin"] in {each["from"] for each in platform["files"]}
    assert [each["selector"]["matchLabels"] for each in spec["platforms"]] == [
        {"os": "darwin", "arch": "arm64"},
        {"os": "linux", "arch": "arm64"},
        {"os": "windows", "arch": "amd64"},
    ]


@pytest.mark.parametrize(
    ("name", "files", "options", "wanted"),
    [
        pytest.param("fleetwright.tar.gz", (), {}, "must be named", id="name"),
        pytest.param("kubectl-fleetwright-linux-amd64.tar.gz", ("LICENSE",), {}, "no file kubectl-", id="program"),
        pytest.param(
            "kubectl-fleetwright-linux-amd64.tar.gz", ("kubectl-fleetwright",), {}, "no file LIC", id="license"
        ),
        pytest.param("kubectl-fleetwright-linux-amd64.tar.gz", (), {"version": "1.2"}, "VERSION", id="version"),
        pytest.param("kubectl-fleetwright-linux-amd64.tar.gz", (), {"url": "http://x"}, "URL", id="address"),
    ],
)
def test_krew_manifest_names_what_the_release_lacks(tmp_path: Path, name, files, options, wanted) -> None:
    ended = run(tmp_path / "out", archive(tmp_path, name, *files), **options)
    assert (ended.returncode, wanted in ended.stderr, (tmp_path / "out").exists()) == (1, True, False), ended.stderr
