"""The selection of programs: the search order, and the version rule."""

from pathlib import Path

import pytest
from e2e.cluster import binaries, go_build, parts
from e2e.cluster.parts import CONTAINERD, ETCD, HELM, PARTS, Version, parse


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("FLEETWRIGHT_PROGRAMS", raising=False)
    return tmp_path


def test_binaries_find_returns_none_without_the_program() -> None:
    assert binaries.find(ETCD) is None


@pytest.mark.process
def test_binaries_find_prefers_assets_then_path_then_cache(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = program(empty_machine / "cache" / "fleetwright" / "bin" / "etcd-3.4.23", "etcd", "anything")
    assert binaries.find(ETCD) == cached
    on_path = program(empty_machine / "path", "etcd", "etcd Version: 3.5.9")
    assert binaries.find(ETCD) == on_path
    assets = program(empty_machine / "assets", "etcd", "etcd Version: 3.6.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.find(ETCD) == assets


@pytest.mark.process
def test_binaries_find_skips_a_program_of_an_unsupported_version(empty_machine: Path) -> None:
    program(empty_machine / "path", "kubectl", "Client Version: v1.32.4-dispatcher")
    assert binaries.find(PARTS["kubectl"]) is None


@pytest.mark.process
def test_binaries_find_skips_a_program_that_prints_no_version(empty_machine: Path) -> None:
    program(empty_machine / "path", "etcd", "who knows")
    assert binaries.find(ETCD) is None


@pytest.mark.process
def test_binaries_find_requires_companion_programs_in_one_folder(empty_machine: Path) -> None:
    folder = program(empty_machine / "path", "containerd", "containerd github.com/containerd/containerd/v2 v2.4.2")
    assert binaries.find(CONTAINERD) is None
    for name in CONTAINERD.also:
        program(folder, name, "same")
    assert binaries.find(CONTAINERD) == folder


@pytest.mark.parametrize(
    ("said", "version"),
    [
        pytest.param("Kubernetes v1.36.3", (1, 36, 3), id="kubernetes"),
        pytest.param("v3.22.0+g1a2b3c", (3, 22, 0), id="helm"),
        pytest.param("containerd github.com/containerd/containerd/v2 v2.4.2 abc", (2, 4, 2), id="a path with v2 in it"),
        pytest.param("CoreDNS-1.12.4\nlinux/amd64, go1.26.8", (1, 12, 4), id="coredns, not its go"),
        pytest.param("prometheus, version 2.42", (2, 42, 0), id="no patch number"),
    ],
)
def test_version_parser_reads_program_output(said: str, version: Version) -> None:
    assert parse(said) == version


@pytest.mark.parametrize(
    ("rule", "version", "fits"),
    [
        pytest.param(parts.same_minor("1.36.3"), (1, 36, 9), True, id="another patch of the same minor"),
        pytest.param(parts.same_minor("1.36.3"), (1, 35, 3), False, id="another minor"),
        pytest.param(parts.within_a_minor("1.36.3"), (1, 37, 0), True, id="a client one minor ahead"),
        pytest.param(parts.within_a_minor("1.36.3"), (1, 34, 0), False, id="a client two minors behind"),
        pytest.param(parts.within_a_minor("1.36.3"), (2, 36, 0), False, id="a client of another major"),
        pytest.param(HELM.rule, (3, 13, 9), False, id="a helm that is too old"),
        pytest.param(HELM.rule, (4, 0, 0), False, id="a helm of another major"),
    ],
)
def test_version_rule_accepts_matching_versions(rule: parts.Rule, version: Version, fits: bool) -> None:
    assert rule.accepts(version) is fits


def test_binaries_obstacle_names_missing_programs_without_apt(empty_machine: Path) -> None:
    assert "only apt-get can provide them: etcd" in str(binaries.obstacle(["etcd"]))


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "fits"),
    [
        pytest.param("go1.22.1", False, id="an old one is passed over"),
        pytest.param("go1.26.0", True, id="the oldest that will do"),
        pytest.param("go2.0", True, id="a newer one"),
        pytest.param("", False, id="one that says nothing"),
    ],
)
def test_go_build_accepts_supported_go_versions(empty_machine: Path, said: str, fits: bool) -> None:
    program(empty_machine / "path", "go", said)
    assert go_build.fits(empty_machine / "path/go") is fits


@pytest.mark.process
def test_binaries_obstacle_is_none_if_every_program_exists(empty_machine: Path) -> None:
    program(empty_machine / "path", "etcd", "etcd Version: 3.5.9")
    assert binaries.obstacle(["etcd"]) is None
