"""Skips tests whose programs this machine lacks, with the reason. In CI they fail."""

import shutil
import subprocess

import pytest
from tests.support.machine import ceiling, is_in_ci

OLDEST_NODE = 20
"""The oldest major version of Node.js with which the SDKs of the tests work."""


def require_programs(*programs: str) -> None:
    """Skip the test if a program is missing or too old. In CI, fail it."""
    for program in programs:
        if shutil.which(program) is None:
            _give_up(f"{program} is not on this machine")
    if "node" in programs:
        command = ["node", "-p", "process.versions.node"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ceiling(), check=True)
        if int(done.stdout.partition(".")[0]) < OLDEST_NODE:
            _give_up(f"Node.js {done.stdout.strip()} is too old; install {OLDEST_NODE} or newer")


def _give_up(reason: str) -> None:
    say = pytest.fail if is_in_ci() else pytest.skip
    say(reason)
