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
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_a_machine_without_the_program_has_none() -> None:
    assert binaries.find(ETCD) is None


@pytest.mark.process
def test_assets_come_before_path_and_path_before_our_cache(
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
def test_a_program_of_an_unfit_version_is_passed_over(empty_machine: Path) -> None:
    program(empty_machine / "path", "kubectl", "Client Version: v1.32.4-dispatcher")
    assert binaries.find(PARTS["kubectl"]) is None


@pytest.mark.process
def test_a_program_that_does_not_tell_its_version_is_passed_over(empty_machine: Path) -> None:
    program(empty_machine / "path", "etcd", "who knows")
    assert binaries.find(ETCD) is None


@pytest.mark.process
def test_programs_that_belong_together_are_taken_from_one_folder_or_not_at_all(empty_machine: Path) -> None:
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
def test_versions_are_read_from_what_programs_say(said: str, version: Version) -> None:
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
def test_the_rule_for_versions_on_path(rule: parts.Rule, version: Version, fits: bool) -> None:
    assert rule.accepts(version) is fits


def test_a_machine_without_apt_is_told_what_to_put_on_path(empty_machine: Path) -> None:
    assert "not on PATH" in str(binaries.obstacle(["etcd"]))


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
def test_which_go_on_path_will_do(empty_machine: Path, said: str, fits: bool) -> None:
    program(empty_machine / "path", "go", said)
    assert go_build.fits(empty_machine / "path/go") is fits


@pytest.mark.process
def test_nothing_is_in_the_way_when_every_program_is_there(empty_machine: Path) -> None:
    program(empty_machine / "path", "etcd", "etcd Version: 3.5.9")
    assert binaries.obstacle(["etcd"]) is None
