"""Repositories that need more memory than the container has, from a real `git http-backend` on loopback."""

import faulthandler
import json
import os
import random
import resource
import subprocess
import sys

import pytest
from dulwich.errors import ChecksumMismatch
from tests.support.agent.git_backend import run_git, serve_repositories

from fleetwright_agent.commands.fetch.memory_limit import run_within_memory
from fleetwright_agent.config.mounted_files import ConfigurationError, SourceUnavailable

MEBIBYTE = 2**20
GIBIBYTE = 2**30


def begin_repository(folder):
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q")
    return folder


def write_zeros(folder):
    """Commit a file of 128 MiB, whose pack is small."""
    with (folder / "SKILL.md").open("wb") as file:
        file.truncate(128 * MEBIBYTE)
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "one")


def write_difference(folder):
    """Commit two versions of a file of 40 MiB, of which the pack has one as a difference."""
    noise = random.Random(1).randbytes(MEBIBYTE)
    for text in (b"", b"x"):
        (folder / "SKILL.md").write_bytes(noise * 40 + text)
        run_git(folder, "add", ".")
        run_git(folder, "commit", "-qm", "one")
    run_git(folder, "gc", "-q")
    assert "chain length = 1" in run_git(folder, "verify-pack", "-v", *map(str, folder.rglob("*.idx")))


def run_agent_command(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the agent with 100 MiB for its data."""
    limited = ["prlimit", f"--data={100 * MEBIBYTE}", sys.executable, "-m", "fleetwright_agent", *words]
    return subprocess.run(limited, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("write", [write_zeros, write_difference])
def test_large_object_is_named_as_the_cause(process_ring: None, tmp_path, write):
    folder = begin_repository(tmp_path / "served" / "skills")
    write(folder)
    commit = run_git(folder, "rev-parse", "HEAD")
    into = tmp_path / "workspace"
    into.mkdir()
    with serve_repositories(folder.parent) as (_, address):
        url = f"{address}/skills/.git"
        ended = [
            run_agent_command("probe", "skill", f"--url={url}", f"--commit={commit}", "--patience=0"),
            run_agent_command("fetch", "workspace", f"--url={url}", f"--into={into}", "--patience=0"),
        ]
    wanted = "the repository needs more than 100 MiB of memory to unpack; remove its large files"
    assert [(each.returncode, wanted in each.stderr) for each in ended] == [(2, True)] * 2, ended
    assert not any(into.iterdir())


SHARE = int(GIBIBYTE * 0.85)


@pytest.mark.parametrize(
    ("container", "available", "wanted"),
    [
        pytest.param(f"{GIBIBYTE}\n", GIBIBYTE // 2, SHARE, id="the limit of the container"),
        pytest.param("max\n", GIBIBYTE, SHARE, id="a container without a limit"),
        pytest.param(f"{2**63 - 4096}\n", GIBIBYTE, SHARE, id="version 1 of cgroups without a limit"),
        pytest.param(None, GIBIBYTE, SHARE, id="no container"),
        pytest.param(None, None, None, id="a system without these files"),
    ],
)
def test_memory_is_limited_to_a_share_of_the_container(process_ring: None, tmp_path, container, available, wanted):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    file, memory, seen = tmp_path / "memory.max", tmp_path / "meminfo", tmp_path / "seen"
    if container is not None:
        file.write_text(container)
    if available is not None:
        memory.write_text(f"MemTotal:       1 kB\nMemAvailable:   {available // 1024} kB\nBuffers: 1 kB\n")
    run_within_memory(lambda: write_json(seen, resource.getrlimit(resource.RLIMIT_DATA)), cgroups=[file], memory=memory)
    assert json.loads(seen.read_text()) == [wanted or before[0], before[1]]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def write_json(file, value):
    file.write_text(json.dumps(value))


def raise_memory_error():
    raise MemoryError


def abort():
    # pytest would print the stack of the child.
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def raise_unavailable():
    raise SourceUnavailable("gone")


def raise_checksum_mismatch():
    """Raise an error that a pickle cannot restore."""
    raise ChecksumMismatch(b"a" * 20, b"b" * 20)


def leave():
    os._exit(3)


@pytest.mark.parametrize(
    ("work", "error", "text"),
    [
        (raise_memory_error, ConfigurationError, "more than 870 MiB"),
        (abort, ConfigurationError, "more than 870 MiB"),
        (raise_unavailable, SourceUnavailable, "gone"),
        (raise_checksum_mismatch, RuntimeError, "ChecksumMismatch"),
        (leave, ChildProcessError, "ended with 3 and no result"),
    ],
)
def test_error_of_the_work_is_raised(process_ring: None, tmp_path, work, error, text):
    file = tmp_path / "memory.max"
    file.write_text(f"{GIBIBYTE}\n")
    with pytest.raises(error, match=text):
        run_within_memory(work, cgroups=[file], memory=tmp_path / "meminfo")
