"""A program that is missing or too old skips a test with its reason, and fails it in CI."""

import pytest
from tests.support.installed_programs import require_programs

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that is the only one on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "")
    return tmp_path


def install_node(folder, version):
    program = folder / "node"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)


def test_old_node_is_named_with_the_version_that_is_needed(folder):
    install_node(folder, "18.20.4")
    with pytest.raises(pytest.skip.Exception, match=r"Node\.js 18\.20\.4 is too old; install 20 or newer"):
        require_programs("node")


def test_node_of_the_oldest_version_suffices(folder):
    install_node(folder, "20.0.0")
    require_programs("node")


def test_missing_program_fails_in_ci(folder, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="mvn is not on this machine"):
        require_programs("mvn")
