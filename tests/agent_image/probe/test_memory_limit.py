"""Repositories that need more memory than the container has, from a real `git http-backend` on loopback."""

import resource
import subprocess
import sys

import pytest
from tests.support.agent.git_backend import run_git, serve_repositories

from fleetwright_agent.commands.fetch.memory_limit import limit_memory
from fleetwright_agent.config.mounted_files import ConfigurationError

GIBIBYTE = 2**30


@pytest.fixture
def repository(process_ring: None, tmp_path):
    """The URL of a repository whose small pack contains a file of 128 MiB, and its commit."""
    folder = tmp_path / "served" / "skills"
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q")
    with (folder / "SKILL.md").open("wb") as file:
        file.truncate(128 * 2**20)
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "one")
    with serve_repositories(folder.parent) as (_, url):
        yield f"{url}/skills/.git", run_git(folder, "rev-parse", "HEAD")


def run_agent_command(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the agent with 100 MiB for its data."""
    limited = ["prlimit", f"--data={100 * 2**20}", sys.executable, "-m", "fleetwright_agent", *words]
    return subprocess.run(limited, capture_output=True, text=True, check=False)


def test_large_object_is_named_as_the_cause(repository, tmp_path):
    url, commit = repository
    into = tmp_path / "workspace"
    into.mkdir()
    ended = [
        run_agent_command("probe", "skill", f"--url={url}", f"--commit={commit}", "--patience=0"),
        run_agent_command("fetch", "workspace", f"--url={url}", f"--into={into}", "--patience=0"),
    ]
    wanted = "the repository needs more than 100 MiB of memory to unpack; remove its large files"
    assert [(each.returncode, wanted in each.stderr) for each in ended] == [(2, True)] * 2, ended
    assert not any(into.iterdir())


@pytest.mark.parametrize(
    ("text", "wanted"), [(f"{GIBIBYTE}\n", int(GIBIBYTE * 0.85)), ("max\n", None), (None, None)], ids=str
)
def test_memory_is_limited_to_a_share_of_the_container(tmp_path, text, wanted):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    file = tmp_path / "memory.max"
    if text is not None:
        file.write_text(text)
    with limit_memory(file):
        assert resource.getrlimit(resource.RLIMIT_DATA) == ((wanted or before[0]), before[1])
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_exhausted_memory_names_the_limit(tmp_path):
    file = tmp_path / "memory.max"
    file.write_text(f"{GIBIBYTE}\n")
    with pytest.raises(ConfigurationError, match="more than 870 MiB"), limit_memory(file):
        raise MemoryError
